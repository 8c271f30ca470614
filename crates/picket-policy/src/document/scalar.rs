//! The types of scalars, as kubectl resolves them (`sigs.k8s.io/yaml`, goyaml.v2 `resolve.go`).

use smol_str::SmolStr;

use super::node::Value;

/// The value of a plain scalar without tag.
pub(super) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Value::Boolean(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Value::Boolean(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float(f64::NEG_INFINITY),
        _ => {}
    }
    let number = match text.as_bytes().first() {
        Some(b'0'..=b'9' | b'+' | b'-') => {
            let plain = text.replace('_', "");
            integer(&plain).or_else(|| float(&plain))
        }
        Some(b'.') => float(text),
        _ => None,
    };
    number.unwrap_or_else(|| Value::String(SmolStr::new(text)))
}

/// The value of a scalar with the YAML tag `!!TAG`, quoted or not; `None` when it is no such thing.
pub(super) fn resolve_tagged(tag: &str, text: &str) -> Option<Value> {
    let value = match tag {
        "str" | "timestamp" => return Some(Value::String(SmolStr::new(text))),
        _ => resolve(text),
    };
    let fits = matches!(
        (tag, &value),
        ("null", Value::Null)
            | ("bool", Value::Boolean(_))
            | ("int", Value::Integer(_))
            | ("float", Value::Float(_) | Value::Integer(_))
    );
    fits.then_some(value)
}

/// Go's `strconv.ParseInt(text, 0, 64)` on text without underscores; beyond 64 bits a float.
fn integer(text: &str) -> Option<Value> {
    let (sign, digits): (i8, _) = match text.as_bytes().first()? {
        b'-' => (-1, text.get(1..)?),
        b'+' => (1, text.get(1..)?),
        _ => (1, text),
    };
    let prefixed = |length: usize| digits.get(length..).unwrap_or_default();
    let (radix, digits) = match digits.get(..2).unwrap_or_default() {
        "0x" | "0X" => (16, prefixed(2)),
        "0b" | "0B" => (2, prefixed(2)),
        "0o" | "0O" => (8, prefixed(2)),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, prefixed(1)),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let magnitude = i128::from_str_radix(digits, radix).ok();
    let value = magnitude.and_then(|magnitude| i64::try_from(i128::from(sign) * magnitude).ok());
    Some(value.map_or_else(|| Value::Float(f64::from(sign) * f64::MAX), Value::Integer))
}

/// A decimal float, as `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$` has it.
fn float(text: &str) -> Option<Value> {
    let allowed = |byte: u8| byte.is_ascii_digit() || b".eE+-".contains(&byte);
    if !text.bytes().all(allowed) || !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the range is checked, and the fraction is zero"
    )]
    let integral = || value as i64;
    // 2^53: above it not every integer is a float.
    let is_integer = value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0;
    Some(if is_integer {
        Value::Integer(integral())
    } else {
        Value::Float(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_have_the_types_that_kubectl_gives_them() {
        use Value::{Boolean, Integer, Null};
        for (text, expected) in [
            ("", Null),
            ("~", Null),
            ("Null", Null),
            ("true", Boolean(true)),
            ("yes", Boolean(true)),
            ("y", Boolean(true)),
            ("Off", Boolean(false)),
            ("80", Integer(80)),
            ("+80", Integer(80)),
            ("-1", Integer(-1)),
            ("0x50", Integer(80)),
            ("0120", Integer(80)),
            ("0o120", Integer(80)),
            ("0b1010000", Integer(80)),
            ("8_0", Integer(80)),
            ("80.0", Integer(80)),
            ("8e1", Integer(80)),
            ("8.", Integer(8)),
            ("089", Integer(89)),
            ("9223372036854775807", Integer(i64::MAX)),
            (".5", Value::Float(0.5)),
            ("1.5", Value::Float(1.5)),
            ("18446744073709551616", Value::Float(f64::MAX)),
        ] {
            assert_eq!(resolve(text), expected, "{text}");
        }
        for text in [
            "http",
            "1.2.3.4",
            "10.0.0.0/8",
            "0x",
            "-",
            "+",
            ".",
            "2001-01-01",
            "tRUE",
            "e1",
            "1e",
            "<<",
            "::1",
        ] {
            assert_eq!(resolve(text), Value::String(text.into()), "{text}");
        }
    }

    #[test]
    fn tags_decide_the_type_or_are_refused() {
        assert_eq!(resolve_tagged("str", "80"), Some(Value::String("80".into())));
        assert_eq!(resolve_tagged("int", "80"), Some(Value::Integer(80)));
        assert_eq!(resolve_tagged("int", "x"), None);
        assert_eq!(resolve_tagged("binary", "eA=="), None);
    }
}
