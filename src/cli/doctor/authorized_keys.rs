//! What the lines of an `authorized_keys` file let their owners do.

/// What is wrong with a line, each with its fix behind the semicolon; nothing for a line that only lets look.
pub(super) fn troubles(line: &str) -> Vec<String> {
    let Some(options) = options_of(line) else {
        return vec![
            "the key has no options: it gives a shell; write `restrict,pty,command=\"…\"` before it"
                .to_owned(),
        ];
    };
    let name = |option: &String| option.split('=').next().unwrap_or_default().to_ascii_lowercase();
    let has = |wanted: &str| options.iter().any(|option| name(option) == wanted);
    let mut troubles = Vec::new();
    if !has("restrict") {
        troubles.push(
            "the key is not restricted: it forwards ports and agents; put `restrict,` first".to_owned(),
        );
    }
    for given_back in
        ["port-forwarding", "agent-forwarding", "x11-forwarding", "user-rc", "permitopen", "tunnel"]
    {
        if has(given_back) {
            troubles.push(format!("`{given_back}` gives back what `restrict` takes; leave it out"));
        }
    }
    let command = options.iter().find(|option| name(option) == "command");
    let command =
        command.and_then(|option| option.split_once('=')).map(|(_, command)| command.trim_matches('"'));
    match command {
        None => {
            troubles.push("the key runs any command; write `command=\"sandkeeper --read-only …\"`".to_owned());
        }
        Some(command) if !only_looks(command) => troubles.push(format!(
            "the key runs `{command}`, which is not known to only look; run `sandkeeper --read-only …` or `sandkeeper-view …`"
        )),
        Some(_) => {}
    }
    troubles
}

/// Whether a line is about a key at all.
pub(super) fn is_key(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

/// The options before the key; `None` if there are none.
fn options_of(line: &str) -> Option<Vec<String>> {
    const KINDS: [&str; 4] = ["ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-"];
    let line = line.trim();
    if KINDS.iter().any(|kind| line.starts_with(kind)) {
        return None;
    }
    let mut options = vec![String::new()];
    let (mut quoted, mut escaped) = (false, false);
    for c in line.chars() {
        match c {
            '"' if !escaped => quoted = !quoted,
            ' ' | '\t' if !quoted => break,
            ',' if !quoted => {
                options.push(String::new());
                continue;
            }
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        if let Some(option) = options.last_mut() {
            option.push(c);
        }
    }
    Some(options)
}

/// Whether a command is this program in a form that cannot change anything.
fn only_looks(command: &str) -> bool {
    // A shell runs it: what chains, substitutes or redirects could run anything.
    if command.contains([';', '&', '|', '`', '$', '<', '>', '\n', '(', '\\', '#', '\'', '"']) {
        return false;
    }
    // What is set in front of it could make the loader or the shell run something else.
    let harmless = |name: &str| matches!(name, "TERM" | "LANG" | "COLORTERM") || name.starts_with("LC_");
    let mut words = command
        .split_whitespace()
        .skip_while(|word| word.split_once('=').is_some_and(|(name, _)| harmless(name)));
    let named = words.next().unwrap_or_default();
    // A program of this name in a folder of the viewer's own may be anything.
    let installed = ["/usr/", "/opt/"].iter().any(|root| named.starts_with(root)) && !named.contains("..");
    if named.contains('/') && !installed {
        return false;
    }
    let program = named.rsplit('/').next().unwrap_or_default();
    match program {
        "sandkeeper-view" => true,
        "sandkeeper" => words.any(|word| word == "--read-only"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(
        r#"restrict,pty,command="sandkeeper --read-only --host unix:///run/gate.sock" ssh-ed25519 AAAA x"#,
        0
    )]
    #[case(r#"restrict,pty,command="/usr/bin/sandkeeper-view" ssh-ed25519 AAAA"#, 0)]
    #[case(r#"restrict,pty,command="TERM=xterm sandkeeper-view --max-fps 5" ssh-ed25519 AAAA"#, 0)]
    #[case(r#"restrict,command="sandkeeper # --read-only" ssh-ed25519 AAAA"#, 1)]
    #[case(r#"restrict,command="LD_PRELOAD=/tmp/x.so sandkeeper-view" ssh-ed25519 AAAA"#, 1)]
    #[case(r#"restrict,command="PATH=/tmp sandkeeper-view" ssh-ed25519 AAAA"#, 1)]
    #[case(r#"restrict,command="/home/viewer/sandkeeper-view" ssh-ed25519 AAAA"#, 1)]
    #[case(r#"restrict,command="/usr/../tmp/sandkeeper-view" ssh-ed25519 AAAA"#, 1)]
    #[case("ssh-ed25519 AAAA ada", 1)]
    #[case(r#"pty,command="sandkeeper-view" ssh-ed25519 AAAA"#, 1)]
    #[case("restrict,pty ssh-ed25519 AAAA", 1)]
    #[case(r#"restrict,port-forwarding,command="sandkeeper-view" ssh-ed25519 AAAA"#, 1)]
    #[case(r#"restrict,command="sandkeeper status" ssh-ed25519 AAAA"#, 1)]
    #[case(r#"restrict,command="sandkeeper-view; sh" ssh-ed25519 AAAA"#, 1)]
    #[case(r#"restrict,command="sh -c 'sandkeeper --read-only'" ssh-ed25519 AAAA"#, 1)]
    #[case(r#"command="echo \"restrict\", sandkeeper-view" ssh-ed25519 AAAA"#, 2)]
    fn only_lines_that_let_look_are_right(#[case] line: &str, #[case] wrong: usize) {
        assert_eq!(troubles(line).len(), wrong, "{line}: {:?}", troubles(line));
    }

    #[test]
    fn comments_are_no_keys() {
        assert!(!is_key("  # a comment") && !is_key("") && is_key("ssh-ed25519 AAAA"));
    }
}
