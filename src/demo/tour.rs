//! The guided walk through the demo: six steps for the footer, each a sentence and a key to press.

/// The steps, in order.
pub fn tour() -> &'static [&'static str] {
    &[
        "1/6 Each row is a sandbox, grouped by workspace; its status says whether a session still needs it. Move with j and k.",
        "2/6 Under the list stands why, with the evidence and its age. Look at an `orphaned` one, then at an `active` one.",
        "3/6 Press R to reconcile: a preview of what can go and what is kept, each with its reason. Nothing happens before you confirm.",
        "4/6 Press D on an `active` one to drain it: it goes when its sessions have ended, and not before.",
        "5/6 A `lost` session needs a container that is gone; one that is `unknown` could not be judged, so nobody may touch it.",
        "6/6 Press ? for every key and q to leave. Nothing here was real; on your own host run `sandkeeper --read-only` first.",
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_numbered_steps_that_fit_on_two_lines() {
        assert_eq!(tour().len(), 6);
        for (index, step) in tour().iter().enumerate() {
            assert!(step.starts_with(&format!("{}/6 ", index + 1)), "{step}");
            assert!(step.len() < 160, "{} letters: {step}", step.len());
        }
    }
}
