//! The labels that a profile's rules read. Whoever hides or shortens labels must leave these as they are.

use std::collections::BTreeSet;

use super::Profile;
use crate::domain::template::Template;

impl Profile {
    /// The keys of every label on which a verdict may depend.
    pub fn label_keys(&self) -> BTreeSet<&str> {
        let forms = self.recognition.undecidable.iter().flat_map(|form| form.labels.keys());
        let mut keys: BTreeSet<&str> =
            self.recognition.labels.keys().chain(forms).map(String::as_str).collect();
        let rules = [
            self.persistence.label.as_deref(),
            self.lifetime.label.as_deref(),
            self.config_hash.as_ref().map(|rule| rule.label.as_str()),
        ];
        keys.extend(rules.into_iter().flatten());
        let homes = self.home.iter().flat_map(|home| &home.container);
        let paths = self.over.iter().flat_map(|over| &over.missing_paths);
        let links = self.links.iter().flat_map(|link| &link.container);
        let templates = self.workspace.iter().chain(&self.instance).chain(&self.companions);
        let templates = templates.chain(homes).chain(paths).chain(links);
        keys.extend(
            templates.flat_map(Template::placeholders).filter_map(|name| name.strip_prefix("label.")),
        );
        keys
    }
}
