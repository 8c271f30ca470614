//! What Neutron is asked, in words: for errors, and for whoever counts.

use std::fmt;
use std::time::Duration;

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Gets a token of Keystone.
    Authenticate,
    /// Reads which extensions there are.
    ListExtensions,
    /// Reads limits, and how much of them is used.
    ShowQuotas,
    /// Reads a page of security groups with their rules.
    ListSecurityGroups,
    /// Reads one.
    ShowSecurityGroup,
    /// Makes one.
    CreateSecurityGroup,
    /// Gives one a description.
    UpdateSecurityGroup,
    /// Deletes one with its rules.
    DeleteSecurityGroup,
    /// Makes rules of one group, all or none.
    CreateSecurityGroupRules,
    /// Deletes a rule.
    DeleteSecurityGroupRule,
    /// Reads a page of address groups.
    ListAddressGroups,
    /// Reads one.
    ShowAddressGroup,
    /// Makes one.
    CreateAddressGroup,
    /// Adds addresses to one.
    AddAddresses,
    /// Takes addresses away from one.
    RemoveAddresses,
    /// Deletes one.
    DeleteAddressGroup,
    /// Reads a page of ports.
    ListPorts,
    /// Reads one.
    ShowPort,
    /// Gives a port its security groups.
    UpdatePort,
    /// Gives something its tags.
    ReplaceTags,
}

impl Operation {
    /// All of them, in order.
    pub const ALL: [Self; 20] = [
        Self::Authenticate,
        Self::ListExtensions,
        Self::ShowQuotas,
        Self::ListSecurityGroups,
        Self::ShowSecurityGroup,
        Self::CreateSecurityGroup,
        Self::UpdateSecurityGroup,
        Self::DeleteSecurityGroup,
        Self::CreateSecurityGroupRules,
        Self::DeleteSecurityGroupRule,
        Self::ListAddressGroups,
        Self::ShowAddressGroup,
        Self::CreateAddressGroup,
        Self::AddAddresses,
        Self::RemoveAddresses,
        Self::DeleteAddressGroup,
        Self::ListPorts,
        Self::ShowPort,
        Self::UpdatePort,
        Self::ReplaceTags,
    ];

    /// In one word, as labels of metrics have it.
    pub fn label(self) -> &'static str {
        self.spelled().1
    }

    /// The method of HTTP.
    pub fn method(self) -> &'static str {
        self.spelled().0
    }

    /// Whether it changes nothing that Neutron keeps.
    pub fn is_read(self) -> bool {
        self == Self::Authenticate || self.method() == "GET"
    }

    fn spelled(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Authenticate => ("POST", "authenticate", "give a token"),
            Self::ListExtensions => ("GET", "list_extensions", "list extensions"),
            Self::ShowQuotas => ("GET", "show_quotas", "show the quotas of project"),
            Self::ListSecurityGroups => ("GET", "list_security_groups", "list security groups"),
            Self::ShowSecurityGroup => ("GET", "show_security_group", "show security group"),
            Self::CreateSecurityGroup => ("POST", "create_security_group", "create security group"),
            Self::UpdateSecurityGroup => ("PUT", "update_security_group", "describe security group"),
            Self::DeleteSecurityGroup => ("DELETE", "delete_security_group", "delete security group"),
            Self::CreateSecurityGroupRules => (
                "POST",
                "create_security_group_rules",
                "create rules of security group",
            ),
            Self::DeleteSecurityGroupRule => (
                "DELETE",
                "delete_security_group_rule",
                "delete security group rule",
            ),
            Self::ListAddressGroups => ("GET", "list_address_groups", "list address groups"),
            Self::ShowAddressGroup => ("GET", "show_address_group", "show address group"),
            Self::CreateAddressGroup => ("POST", "create_address_group", "create address group"),
            Self::AddAddresses => ("PUT", "add_addresses", "add addresses to address group"),
            Self::RemoveAddresses => ("PUT", "remove_addresses", "remove addresses from address group"),
            Self::DeleteAddressGroup => ("DELETE", "delete_address_group", "delete address group"),
            Self::ListPorts => ("GET", "list_ports", "list ports"),
            Self::ShowPort => ("GET", "show_port", "show port"),
            Self::UpdatePort => ("PUT", "update_port", "update the security groups of port"),
            Self::ReplaceTags => ("PUT", "replace_tags", "replace the tags of"),
        }
    }
}

/// A call: what it does, and to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What it does.
    pub operation: Operation,
    /// The name or id of what it is about; empty for lists.
    pub subject: String,
}

impl Call {
    pub(super) fn new(operation: Operation, subject: &str) -> Self {
        Self {
            operation,
            subject: subject.to_owned(),
        }
    }
}

/// The most characters of a name that an error repeats.
const LONGEST_SUBJECT: usize = 100;

impl fmt::Display for Call {
    /// As in ``create security group `web` (POST)``.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (method, _, words) = self.operation.spelled();
        f.write_str(words)?;
        if !self.subject.is_empty() {
            write!(f, " `{}`", line(&self.subject, LONGEST_SUBJECT))?;
        }
        write!(f, " ({method})")
    }
}

/// The words of others in one line that ends.
pub(super) fn line(text: &str, longest: usize) -> String {
    let mut line = String::new();
    for letter in text.chars().take(longest) {
        match letter {
            '"' | '\'' => line.push(letter),
            letter => line.extend(letter.escape_debug()),
        }
    }
    if text.chars().nth(longest).is_some() {
        line.push('…');
    }
    line
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Done.
    Done,
    /// The token counts for nothing (401).
    Unauthorized,
    /// It is not allowed (403).
    Forbidden,
    /// There is no such thing (404).
    NotFound,
    /// Something stands in its way (409).
    Conflict,
    /// There would be more than the quota allows (409 `OverQuota`, or 413).
    OverQuota,
    /// It was about another state than the present one (412).
    Stale,
    /// There were too many calls (429).
    Throttled,
    /// Neutron understood, and will not (other 4xx, and 3xx).
    Refused,
    /// Neutron failed (5xx).
    Failed,
    /// Nothing was answered in time.
    TimedOut,
    /// No connection came about. Neutron knows nothing of the call.
    Unreachable,
    /// The connection broke.
    Cut,
    /// The answer was longer than any is.
    TooLong,
}

impl Outcome {
    /// In one word, as labels of metrics have it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::OverQuota => "over_quota",
            Self::Stale => "stale",
            Self::Throttled => "throttled",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Unreachable => "unreachable",
            Self::Cut => "cut",
            Self::TooLong => "too_long",
        }
    }
}

/// Sees every call, and may keep calls from being made.
pub trait Observer: Send + Sync {
    /// A call ended so, after this time. Calls that are repeated are told one by one.
    fn called(&self, operation: Operation, outcome: Outcome, took: Duration) {
        let _ = (operation, outcome, took);
    }

    /// Whether a call that changes something may begin now, which ends within `limit`. It is asked right before the request is
    /// sent, so that nothing is sent once a lease no longer lasts as long.
    fn permits(&self, operation: Operation, limit: Duration) -> bool {
        let _ = (operation, limit);
        true
    }

    /// Whether a call is to be made again that has failed, after a while. It is asked again and again in that while.
    fn is_patient(&self) -> bool {
        true
    }
}

/// Sees nothing, permits everything.
impl Observer for () {}
