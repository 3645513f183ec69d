//! Takes secrets out of what an engine says about a container, before anyone can look over somebody's shoulder.
//!
//! Nobody can know every secret. Values of environment variables are hidden unless they are known to be harmless;
//! elsewhere a value is hidden when its name or its shape is that of a secret. In doubt it is hidden.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::Value;

use crate::text::clean;

/// What stands in place of a secret.
pub(super) const REDACTED: &str = "<redacted>";

/// Environment variables whose values are shown.
const HARMLESS_VARIABLES: [&str; 12] = [
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TERM",
    "TZ",
    "USER",
    "SHELL",
    "PWD",
    "HOSTNAME",
    "CONTAINER",
    "container",
];

/// Names that contain one of these name a secret, however they are written.
const TELLING_PARTS: [&str; 10] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "bearer",
    "apikey",
    "privatekey",
    "authorization",
];

/// Names that have one of these among their words name a secret; as a part they are in too many harmless words.
const TELLING_WORDS: [&str; 9] = ["key", "keys", "auth", "pass", "pwd", "pat", "cookie", "cookies", "dsn"];

/// Words that only end like one.
const HARMLESS: [&str; 4] = ["bypass", "compass", "overpass", "surpass"];

/// Takes the secrets out of an inspection, and makes its texts harmless.
pub(super) fn redact(document: &mut Value) {
    Redactor::for_people().redact(document);
}

/// How secrets are taken out.
#[derive(Clone, Debug)]
pub(crate) struct Redactor {
    /// Whether texts are made harmless and short too; a program gets them as they are.
    for_people: bool,
    /// Labels that are left as they are, for verdicts depend on them.
    kept_labels: BTreeSet<String>,
}

impl Redactor {
    fn for_people() -> Self {
        Self { for_people: true, kept_labels: BTreeSet::new() }
    }

    /// For a program: every value keeps its type, and these labels their values.
    pub(crate) fn for_programs(kept_labels: BTreeSet<String>) -> Self {
        Self { for_people: false, kept_labels }
    }

    pub(crate) fn redact(&self, document: &mut Value) {
        self.redact_below("", document);
    }

    /// Redacts what stands under `parent`.
    fn redact_below(&self, parent: &str, document: &mut Value) {
        match document {
            Value::String(text) => *text = self.plain(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_below(parent, item)),
            Value::Object(members) => {
                let in_labels = matches!(parent, "Labels" | "Attributes");
                let cleaned = std::mem::take(members).into_iter().map(|(key, mut value)| {
                    if !(in_labels && self.kept_labels.contains(&key)) {
                        self.redact_member(&key, &mut value);
                    }
                    (self.harmless(&key).into_owned(), value)
                });
                *members = cleaned.collect();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn redact_member(&self, key: &str, value: &mut Value) {
        match (key, value) {
            ("Env", Value::Array(variables)) => {
                for variable in variables {
                    self.redact_variable(variable);
                }
            }
            (
                "Cmd" | "Entrypoint" | "Args" | "Test" | "CreateCommand" | "arguments" | "Processes",
                Value::Array(words),
            ) => self.redact_words(words),
            // The path of a network namespace.
            ("SandboxKey", value) => self.redact_below(key, value),
            (name, value) if is_telling(name) => self.hide(value),
            (_, value) => self.redact_below(key, value),
        }
    }

    /// Hides every text and number below.
    fn hide(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::String(text) if text.is_empty() => {}
            Value::Number(_) if !self.for_people => *value = Value::from(0),
            Value::String(_) | Value::Number(_) => *value = Value::from(REDACTED),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.hide(member)),
        }
    }

    /// `NAME=value` keeps its name.
    fn redact_variable(&self, variable: &mut Value) {
        let hidden = match variable.as_str().map(|text| text.split_once('=').unwrap_or((text, ""))) {
            Some((name, value)) if value.is_empty() || HARMLESS_VARIABLES.contains(&name) => {
                self.plain(&format!("{name}={value}"))
            }
            Some((name, _)) => format!("{}={REDACTED}", self.harmless(name)),
            None => REDACTED.to_owned(),
        };
        *variable = Value::from(hidden);
    }

    /// The words of a command; the one after `--password` is a password.
    fn redact_words(&self, words: &mut [Value]) {
        let mut after_telling = false;
        for word in words {
            let text = match word {
                Value::String(text) => text.as_str(),
                // The processes of a container are lists of words.
                Value::Array(words) => {
                    self.redact_words(words);
                    continue;
                }
                other => {
                    self.redact(other);
                    continue;
                }
            };
            let is_flag = text.starts_with('-');
            // What follows such a flag is its value, whatever it looks like.
            let hidden = if after_telling { REDACTED.to_owned() } else { self.plain(text) };
            after_telling = !after_telling && is_flag && !text.contains(['=', ' ']) && is_telling(text);
            *word = Value::from(hidden);
        }
    }

    fn harmless<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.for_people { clean(text) } else { Cow::Borrowed(text) }
    }

    /// A text without what has the shape of a secret; for people one harmless line.
    fn plain(&self, text: &str) -> String {
        let text = without_secrets(text);
        if self.for_people { clean(&text).into_owned() } else { text.into_owned() }
    }
}

/// Whether a name is that of a secret.
fn is_telling(name: &str) -> bool {
    let letters = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase());
    let letters: String = letters.collect();
    let is_word = |word: &str| {
        let word = word.to_ascii_lowercase();
        TELLING_WORDS.contains(&word.as_str())
            || (word.ends_with("pass") && !HARMLESS.contains(&word.as_str()))
    };
    TELLING_PARTS.iter().any(|part| letters.contains(part)) || words_of(name).any(is_word)
}

/// `sessionKey`, `session-key` and `SESSION_KEY` are `session` and `key`.
fn words_of(name: &str) -> impl Iterator<Item = &str> {
    let mut start = 0;
    let mut before = ' ';
    let mut ends: Vec<(usize, usize)> = Vec::new();
    for (at, c) in name.char_indices() {
        if !c.is_alphanumeric() || (c.is_uppercase() && before.is_lowercase()) {
            ends.push((start, at));
            start = if c.is_alphanumeric() { at } else { at + c.len_utf8() };
        }
        before = c;
    }
    ends.push((start, name.len()));
    ends.into_iter().map(|(start, end)| &name[start..end])
}

/// The text without what has the shape of a secret. Most texts show at a glance that they have none, which spares them the
/// patterns: a list may hold a million texts.
pub(crate) fn without_secrets(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for (signs, shape, replacement) in SHAPES.iter() {
        if !signs.iter().any(|sign| text.contains(sign)) {
            continue;
        }
        if let Cow::Owned(replaced) = shape.replace_all(&text, *replacement) {
            text = Cow::Owned(replaced);
        }
    }
    if may_assign(&text) {
        text = hide_after(text, &ASSIGNMENT);
    }
    if text.contains('-') && text.contains(char::is_whitespace) {
        text = hide_after(text, &FLAG);
    }
    text
}

/// Whether a text may hold `name=value`, `name: value` or `"name":"value"`. Images, digests and addresses have colons of
/// another kind.
fn may_assign(text: &str) -> bool {
    let colon = || {
        text.contains(['"', '\''])
            || text.match_indices(':').any(|(at, _)| text[at + 1..].starts_with(char::is_whitespace))
    };
    text.contains('=') || (text.contains(':') && colon())
}

/// Hides what comes after each telling name that `named` finds.
fn hide_after<'a>(text: Cow<'a, str>, named: &Regex) -> Cow<'a, str> {
    let mut hidden = String::new();
    let mut done = 0;
    while let Some(found) = named.captures_at(&text, done)
        && let Some(whole) = found.get(0)
    {
        let name = &found["name"];
        hidden.push_str(&text[done..whole.end()]);
        done = whole.end();
        if is_telling(name) {
            let quote = whole.as_str().chars().last().filter(|last| matches!(last, '"' | '\''));
            let ends = |c: char| match quote {
                Some(quote) => c == quote,
                // A scheme and its value: `token abc`, `ApiKey abc`.
                None if has_scheme(name) => matches!(c, '"' | '\'' | '\n' | '\r'),
                None => c.is_whitespace() || matches!(c, '"' | '\'' | '&' | ';' | ',' | '|' | ')' | '}'),
            };
            let value = text[done..].find(ends).unwrap_or(text.len() - done);
            if value > 0 {
                hidden.push_str(REDACTED);
            }
            done += value;
        }
    }
    if done == 0 {
        return text;
    }
    hidden.push_str(&text[done..]);
    Cow::Owned(hidden)
}

/// Whether the value of this name has a word in front that says what it is.
fn has_scheme(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with("authorization")
}

/// Secrets that show by their shape, wherever they stand, each with the signs of which one must be there.
static SHAPES: LazyLock<[(&[&str], Regex, &str); 5]> = LazyLock::new(|| {
    let shapes: [(&[&str], &str, &str); 5] = [
        (&["://"], r#"(?i)([a-z][a-z0-9+.-]*://)[^/\s'"]+@"#, "${1}<redacted>@"),
        (
            &["earer", "EARER", "asic", "ASIC"],
            r"(?i)\b(bearer|basic)(\s+)[a-z0-9._~+/=-]{6,}",
            "${1}${2}<redacted>",
        ),
        (
            &["-----BEGIN "],
            r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)",
            REDACTED,
        ),
        (&["eyJ"], r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*", REDACTED),
        (
            &["gh", "glpat-", "sk-", "xox", "AKIA", "ASIA", "AIza", "npm_", "hf_"],
            r"\b(gh[a-z]_|github_pat_|glpat-|sk-|xox[a-z]-|AKIA|ASIA|AIza|npm_|hf_)[A-Za-z0-9_-]{12,}",
            REDACTED,
        ),
    ];
    shapes.map(|(signs, shape, replacement)| (signs, pattern(shape), replacement))
});

/// `name=value`, `name: value` and `"name":"value"` up to the value, in the middle of a text such as a script.
static ASSIGNMENT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"(?P<name>[A-Za-z0-9_.-]+)(["']?\s*=\s*["']?|["']?\s*:\s+["']?|["']\s*:\s*["']?)"#)
});

/// `--name value` up to the value.
static FLAG: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(?P<name>--?[A-Za-z][A-Za-z0-9_.-]*)\s+["']?"#));

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| unreachable!("`{text}` is tested: {error}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn redacted(mut document: Value) -> Value {
        redact(&mut document);
        document
    }

    #[test]
    fn variables_keep_their_names_and_only_harmless_ones_their_values() {
        let document = json!({ "Config": { "Env": [
            "PATH=/usr/bin:/bin", "HOME=/root", "DATABASE=postgres", "OPENAI_API_KEY=abc=def", "EMPTY=", "NO_VALUE",
        ] } });
        let expected = [
            "PATH=/usr/bin:/bin",
            "HOME=/root",
            "DATABASE=<redacted>",
            "OPENAI_API_KEY=<redacted>",
            "EMPTY=",
            "NO_VALUE=",
        ];
        assert_eq!(redacted(document)["Config"]["Env"], json!(expected));
    }

    #[test]
    fn commands_lose_their_secret_words() {
        let command =
            ["serve", "--password", "hunter2", "--api-key=abc", "--port", "80", "-H", "X-Auth: zzz"];
        let expected = [
            "serve",
            "--password",
            "<redacted>",
            "--api-key=<redacted>",
            "--port",
            "80",
            "-H",
            "X-Auth: <redacted>",
        ];
        for place in ["Cmd", "Args", "Entrypoint", "Test"] {
            assert_eq!(redacted(json!({ place: command }))[place], json!(expected));
        }
    }

    #[rstest]
    #[case("export GH_TOKEN=abc; run", "export GH_TOKEN=<redacted>; run")]
    #[case("curl -H 'Authorization: Bearer abcdefgh' x", "curl -H 'Authorization: <redacted>' x")]
    #[case("curl -H 'Authorization: token abc' x", "curl -H 'Authorization: <redacted>' x")]
    #[case("Proxy-Authorization: ApiKey a,b;c", "Proxy-Authorization: <redacted>")]
    #[case("redis-server --requirepass abc", "redis-server --requirepass <redacted>")]
    #[case("dbpass=abc bypass=on", "dbpass=<redacted> bypass=on")]
    #[case("postgres://u:p@ss@db/x?y=a@b", "postgres://<redacted>@db/x?y=a@b")]
    #[case("curl https://ada:pw@example.org/x?y=1", "curl https://<redacted>@example.org/x?y=1")]
    #[case(
        "https://example.org/?a=b&access_token=abc&c=d",
        "https://example.org/?a=b&access_token=<redacted>&c=d"
    )]
    #[case("login --password hunter2 now", "login --password <redacted> now")]
    #[case("login --password 'a b c' now", "login --password '<redacted>' now")]
    #[case("login --password --verbose", "login --password <redacted>")]
    #[case(r#"{"clientSecret":"a b","user":"ada"}"#, r#"{"clientSecret":"<redacted>","user":"ada"}"#)]
    #[case("password = \"a b\"", "password = \"<redacted>\"")]
    #[case("use ghp_0123456789abcdefghij here", "use <redacted> here")]
    #[case("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "<redacted>")]
    #[case("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "<redacted>")]
    #[case("-----BEGIN PRIVATE KEY-----\nMIIE", "<redacted>")]
    #[case("a sentence about tokens and keys", "a sentence about tokens and keys")]
    #[case("/run/secrets:/secrets:ro", "/run/secrets:/secrets:ro")]
    #[case("registry:5000/image@sha256:abc", "registry:5000/image@sha256:abc")]
    #[case("sh -c 'sleep 1000'", "sh -c 'sleep 1000'")]
    fn texts_lose_what_looks_like_a_secret(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(redacted(json!({ "Output": text }))["Output"], expected);
        assert_eq!(redacted(json!({ "Cmd": ["sh", text] }))["Cmd"][1], expected);
    }

    #[rstest]
    #[case("TOKEN", true)]
    #[case("com.example.api-key", true)]
    #[case("sessionKey", true)]
    #[case("SSH_AUTH_SOCK", true)]
    #[case("DBPASSWORD", true)]
    #[case("x-authorization", true)]
    #[case("org.opencontainers.image.authors", false)]
    #[case("sandkeeper.session", false)]
    #[case("keyboard", false)]
    #[case("compass", false)]
    fn names_tell_secrets(#[case] name: &str, #[case] telling: bool) {
        assert_eq!(is_telling(name), telling, "{name}");
        let shown = redacted(json!({ "Labels": { name: "value" } }));
        assert_eq!(shown["Labels"][name] == REDACTED, telling, "{shown}");
    }

    #[test]
    fn whatever_hangs_below_a_telling_name_is_hidden() {
        let document =
            json!({ "Credentials": [{ "a": "b", "n": 7, "on": true, "none": null, "empty": "" }] });
        let expected = json!([{ "a": REDACTED, "n": REDACTED, "on": true, "none": null, "empty": "" }]);
        assert_eq!(redacted(document)["Credentials"], expected);
    }

    #[test]
    fn a_program_gets_types_texts_and_the_labels_of_profiles_as_they_are() {
        let kept = BTreeSet::from(["openclaw.sessionKey".to_owned()]);
        let mut document = json!({
            "Labels": { "openclaw.sessionKey": "agent:main", "api-key": "zzz", "odd": "a\u{202e}b" },
            "Networks": { "auth-net": { "Length": 16, "Name": "x" } },
            "openclaw.sessionKey": "elsewhere", "Env": ["A=b"],
            "Processes": [["root", "1", "serve --token abc"]],
        });
        Redactor::for_programs(kept).redact(&mut document);
        let expected = json!({
            "Labels": { "openclaw.sessionKey": "agent:main", "api-key": REDACTED, "odd": "a\u{202e}b" },
            "Networks": { "auth-net": { "Length": 0, "Name": REDACTED } },
            "openclaw.sessionKey": REDACTED, "Env": ["A=<redacted>"],
            "Processes": [["root", "1", "serve --token <redacted>"]],
        });
        assert_eq!(document, expected);
    }

    #[test]
    fn nothing_in_it_steers_a_terminal() {
        let document =
            json!({ "La\u{1b}[2Jbels": { "a\u{202e}": "x\u{1b}]0;t\u{7}" }, "Env": ["A\u{9b}=b"] });
        let shown = redacted(document).to_string();
        assert!(
            !shown.contains(['\u{1b}', '\u{202e}', '\u{7}', '\u{9b}']) && !shown.contains("\\u"),
            "{shown}"
        );
    }
}
