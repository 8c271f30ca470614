//! Tables, chains, counters and rules as the kernel lists them.

use super::super::attributes::{Fields, Oddity, list};
use super::super::bytes::{comment_of, userdata};
use super::super::encode::{hook_number, policy_number};
use super::super::expression::{Expression, Reference};
use super::super::hold::HELD;
use super::super::uapi::{chain, object, rule, table, userdata as piece};
use crate::model::{Base, Chain, Comment, Counter, Hook, Policy};

/// The comment of a table.
pub(super) fn table(mut fields: Fields<'_>) -> Result<Option<Comment>, Oddity> {
    fields.pass(&[table::NAME, table::OWNER]);
    fields.pass(&table::ABOUT);
    // One that sleeps has other flags than one that is held.
    if fields.number_or_zero(table::FLAGS)? & !HELD != 0 {
        return Err(Oddity::Value("flags of a table"));
    }
    let comment = comment(&mut fields, table::USERDATA)?;
    fields.end()?;
    Ok(comment)
}

/// A chain without its rules.
pub(super) fn chain(mut fields: Fields<'_>) -> Result<Chain, Oddity> {
    fields.pass(&[chain::TABLE]);
    fields.pass(&chain::ABOUT);
    let mut read = Chain::regular(fields.name(chain::NAME)?);
    if fields.has(chain::HOOK) {
        let mut hook = fields.nested(chain::HOOK)?;
        let place = hook.number(chain::HOOK_NUMBER)?;
        let priority = hook.number(chain::HOOK_PRIORITY)?.cast_signed();
        hook.end()?;
        if fields.text(chain::TYPE)? != "filter" {
            return Err(Oddity::Value("type of a chain"));
        }
        let mut hooks = Hook::ALL.into_iter();
        let hook = hooks
            .find(|hook| hook_number(*hook) == place)
            .ok_or(Oddity::Value("hook"))?;
        let policy = fields.number(chain::POLICY)?;
        let mut policies = [Policy::Accept, Policy::Drop].into_iter();
        let policy = policies
            .find(|one| policy_number(*one) == policy)
            .ok_or(Oddity::Value("policy of a chain"))?;
        read.base = Some(Base {
            hook,
            priority,
            policy,
        });
    }
    let flags = if read.base.is_some() { chain::BASE } else { 0 };
    if fields.number_or_zero(chain::FLAGS)? != flags {
        return Err(Oddity::Value("flags of a chain"));
    }
    read.comment = comment(&mut fields, chain::USERDATA)?;
    fields.end()?;
    Ok(read)
}

/// A counter, whatever it has counted.
pub(super) fn counter(mut fields: Fields<'_>) -> Result<Counter, Oddity> {
    fields.pass(&[object::TABLE, object::DATA]);
    fields.pass(&object::ABOUT);
    fields.expect(object::TYPE, object::COUNTER)?;
    let name = fields.name(object::NAME)?;
    let comment = comment(&mut fields, object::USERDATA)?;
    fields.end()?;
    Ok(Counter { name, comment })
}

/// The expressions and the comment of a rule. `named` finds sets by their names.
pub(super) fn rule(
    mut fields: Fields<'_>,
    named: &mut impl FnMut(&str) -> Option<Reference>,
) -> Result<(Vec<Expression>, Option<Comment>), Oddity> {
    fields.pass(&[rule::TABLE, rule::CHAIN, rule::HANDLE, rule::POSITION]);
    let mut expressions = Vec::new();
    if fields.has(rule::EXPRESSIONS) {
        for bytes in list(fields.bytes(rule::EXPRESSIONS)?)? {
            expressions.extend(Expression::read(bytes, named)?);
        }
    }
    let comment = comment(&mut fields, rule::USERDATA)?;
    fields.end()?;
    Ok((expressions, comment))
}

fn comment(fields: &mut Fields<'_>, attribute: u16) -> Result<Option<Comment>, Oddity> {
    if !fields.has(attribute) {
        return Ok(None);
    }
    let pieces = userdata(fields.bytes(attribute)?).ok_or(Oddity::CutOff)?;
    match pieces.as_slice() {
        [] => Ok(None),
        [(piece::COMMENT, text)] => comment_of(text).map(Some).ok_or(Oddity::Value("comment")),
        _ => Err(Oddity::Value("user data")),
    }
}
