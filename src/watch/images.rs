//! What images say about containers: the labels they hand down, and which image a tag names now. Cached, for an
//! image never changes and a tag seldom does.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use futures_util::StreamExt;

use super::engine::remaining;
use crate::domain::snapshot::{ImageFact, Images, TagFact};
use crate::domain::{Container, Labels};
use crate::engine::EngineView;

/// Tags are asked for again after this long even if no event spoke of them.
const TAG_LIFETIME: Duration = Duration::from_mins(1);
const QUESTIONS_AT_ONCE: usize = 8;

#[derive(Debug, Default)]
pub(super) struct ImageCache {
    labels: HashMap<String, Labels>,
    tags: HashMap<String, (Instant, TagFact)>,
}

impl ImageCache {
    /// Tags may have moved.
    pub(super) fn forget_tags(&mut self) {
        self.tags.clear();
    }

    /// Everything these containers need to be judged.
    pub(super) async fn look_up<'a>(
        &mut self,
        engine: &EngineView,
        deadline: Instant,
        containers: impl Iterator<Item = &'a Container>,
    ) -> Images {
        let mut references = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for container in containers {
            ids.insert(container.image_id.to_string());
            if names_a_tag(container.image_reference()) {
                references.insert(container.image_reference().to_owned());
            }
        }
        self.tags.retain(|reference, (at, _)| references.contains(reference) && at.elapsed() < TAG_LIFETIME);
        self.labels.retain(|id, _| ids.contains(id));

        let unknown: Vec<String> =
            references.into_iter().filter(|tag| !self.tags.contains_key(tag)).collect();
        // Labels decide about ownership; a tag that cannot be asked for must leave them their time.
        let tags_by = Instant::now() + remaining(deadline) / 2;
        for (reference, answer) in ask(engine, tags_by, unknown).await {
            let fact = match answer {
                Ok(Some((id, labels))) => {
                    self.labels.insert(id.clone(), labels);
                    TagFact::Names(id)
                }
                Ok(None) => TagFact::Gone,
                Err(fault) => TagFact::Failed(fault),
            };
            self.tags.insert(reference, (Instant::now(), fact));
        }
        let unknown: Vec<String> = ids.into_iter().filter(|id| !self.labels.contains_key(id)).collect();
        let mut by_id: HashMap<String, ImageFact> = HashMap::new();
        for (id, answer) in ask(engine, deadline, unknown).await {
            match answer {
                Ok(Some((_, labels))) => {
                    self.labels.insert(id, labels);
                }
                Ok(None) => {
                    by_id.insert(id, ImageFact::Gone);
                }
                Err(fault) => {
                    by_id.insert(id, ImageFact::Failed(fault));
                }
            }
        }
        by_id.extend(self.labels.iter().map(|(id, labels)| (id.clone(), ImageFact::Labels(labels.clone()))));
        // A failure is no knowledge: it is asked again next time.
        let by_reference = self.tags.iter().map(|(tag, (_, fact))| (tag.clone(), fact.clone())).collect();
        self.tags.retain(|_, (_, fact)| !matches!(fact, TagFact::Failed(_)));
        Images { by_id, by_reference }
    }
}

type Answer = Result<Option<(String, Labels)>, String>;

async fn ask(engine: &EngineView, deadline: Instant, names: Vec<String>) -> Vec<(String, Answer)> {
    let questions = names.into_iter().map(|name| {
        let engine = engine.within(remaining(deadline));
        async move {
            let answer = engine.image(&name).await.map_err(|fault| fault.to_string());
            (name, answer)
        }
    });
    futures_util::stream::iter(questions).buffer_unordered(QUESTIONS_AT_ONCE).collect().await
}

/// Ids and digests name one image for ever; only a tag can move.
fn names_a_tag(reference: &str) -> bool {
    !reference.is_empty() && !is_image_id(reference) && !reference.contains('@')
}

/// Whether the list shows an id in place of a reference, as it does once the reference names another image.
pub(super) fn is_image_id(image: &str) -> bool {
    let hex = image.strip_prefix("sha256:").unwrap_or(image);
    let all_hex = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    all_hex && (hex.len() == 64 || (image.len() == 12 && hex.len() == 12))
}
