//! The list of containers, read while it arrives. One row that cannot be read costs that row.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{RawMount, name_of};
use crate::domain::Labels;
use crate::domain::container::{
    Container, ContainerId, ContainerState, Inspected, Joins, Mount, Row, UnreadableRow,
};
use crate::engine::elements::Elements;
use crate::engine::fault::EngineFault;

/// Beyond these a row is an attack or an accident.
const MOST_LABELS: usize = 20_000;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListRow {
    id: String,
    names: Option<Vec<String>>,
    #[serde(default)]
    image: String,
    #[serde(rename = "ImageID", default)]
    image_id: String,
    labels: Option<Labels>,
    state: Option<String>,
    created: i64,
    mounts: Option<Vec<RawMount>>,
}

/// `GET /containers/json`, read while it arrives. What was known before and is still the same is kept once.
#[derive(Debug)]
pub(crate) struct ListReader<'a> {
    elements: Elements,
    known: HashMap<&'a ContainerId, &'a Arc<Container>>,
    /// The names of images, which many containers have in common.
    images: HashSet<Arc<str>>,
    rows: Vec<Row>,
    /// How the answer begins, to show what came in place of a list.
    beginning: Vec<u8>,
}

impl<'a> ListReader<'a> {
    pub(crate) fn new(known: &'a [Row]) -> Self {
        let containers = known.iter().filter_map(|row| match row {
            Row::Container(container) => Some((&container.id, container)),
            Row::Unreadable(_) => None,
        });
        Self {
            elements: Elements::default(),
            known: containers.collect(),
            images: HashSet::new(),
            rows: Vec::with_capacity(known.len()),
            beginning: Vec::new(),
        }
    }

    /// Takes in the next piece.
    pub(crate) fn take(&mut self, piece: &[u8]) -> Result<(), EngineFault> {
        let room = 60_usize.saturating_sub(self.beginning.len());
        self.beginning.extend_from_slice(&piece[..piece.len().min(room)]);
        let Self { elements, known, images, rows, .. } = self;
        let taken = elements.take(piece, |element| {
            // An element that is no JSON puts all of the answer in doubt; one that is not as promised only itself.
            let raw: &RawValue = serde_json::from_slice(element).map_err(|error| error.to_string())?;
            rows.push(remembered(row(raw.get()), known, images));
            Ok(())
        });
        taken.map_err(|problem: String| self.unintelligible(&problem))
    }

    /// All rows, once everything is taken in.
    pub(crate) fn finish(mut self) -> Result<Vec<Row>, EngineFault> {
        self.elements.finish().map_err(|malformed| self.unintelligible(&malformed.to_string()))?;
        distrust_repeated_ids(&mut self.rows);
        Ok(self.rows)
    }

    fn unintelligible(&self, problem: &str) -> EngineFault {
        let beginning = String::from_utf8_lossy(&self.beginning);
        EngineFault::Unintelligible(format!("{problem}; it begins with `{}`", beginning.trim()))
    }
}

/// The row, in words that are known already wherever they are the same.
fn remembered(
    row: Row,
    known: &HashMap<&ContainerId, &Arc<Container>>,
    images: &mut HashSet<Arc<str>>,
) -> Row {
    let Row::Container(mut container) = row else { return row };
    let known = known.get(&container.id);
    // In whose namespaces it lives never changes.
    if let (Some(Joins::Known(joins)), Some(container)) =
        (known.map(|known| &known.joins), Arc::get_mut(&mut container))
    {
        container.joins = Joins::Known(joins.clone());
    }
    if let Some(known) = known
        && container == **known
    {
        return Row::Container(Arc::clone(known));
    }
    if let Some(container) = Arc::get_mut(&mut container) {
        match known {
            Some(known) => container.share(known),
            None => {
                for text in [&mut container.image, &mut container.image_id] {
                    match images.get(text) {
                        Some(known) => *text = Arc::clone(known),
                        None => drop(images.insert(Arc::clone(text))),
                    }
                }
            }
        }
    }
    Row::Container(container)
}

/// Reads one row of a list.
pub(crate) fn row(json: &str) -> Row {
    let raw: ListRow = match serde_json::from_str(json) {
        Ok(raw) => raw,
        Err(error) => return salvage(json, &error.to_string()),
    };
    let labels = raw.labels.unwrap_or_default();
    let name = name_of(raw.names.as_deref().unwrap_or_default());
    let problem = if labels.len() > MOST_LABELS {
        Some(format!("it has {} labels", labels.len()))
    } else if ContainerId::parse(&raw.id).is_none() {
        Some(format!("`{}` is not a full container id", raw.id.chars().take(80).collect::<String>()))
    } else {
        None
    };
    match (ContainerId::parse(&raw.id), Timestamp::from_second(raw.created), problem) {
        (Some(id), Ok(created_at), None) => Row::Container(Arc::new(Container {
            id,
            name,
            image: raw.image.into(),
            image_id: raw.image_id.into(),
            labels,
            state: ContainerState::parse(raw.state.as_deref().unwrap_or_default()),
            created_at,
            mounts: raw.mounts.unwrap_or_default().into_iter().map(Mount::from).collect(),
            joins: Joins::NotAsked,
            inspected: Inspected::NotNeeded,
        })),
        (id, _, problem) => Row::Unreadable(Box::new(UnreadableRow {
            id,
            name: (!name.is_empty()).then_some(name),
            labels: Some(labels),
            problem: problem.unwrap_or_else(|| "its time of creation is out of range".to_owned()),
        })),
    }
}

/// Takes what can be taken from a row that is not as promised.
fn salvage(json: &str, problem: &str) -> Row {
    let value: Value = serde_json::from_str(json).unwrap_or(Value::Null);
    let names: Vec<String> =
        value.get("Names").and_then(|names| names.as_array()).map_or_else(Vec::new, |names| {
            names.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
        });
    let name = name_of(&names);
    let labels = match value.get("Labels") {
        Some(Value::Null) => Some(Labels::default()),
        Some(Value::Object(labels)) => labels
            .iter()
            .map(|(key, value)| value.as_str().map(|value| (key, value)))
            .collect::<Option<Labels>>(),
        // A row that is no object, or has no labels key, does not say whose it is.
        _ => None,
    };
    Row::Unreadable(Box::new(UnreadableRow {
        id: value.get("Id").and_then(Value::as_str).and_then(ContainerId::parse),
        name: (!name.is_empty()).then_some(name),
        labels,
        problem: problem.to_owned(),
    }))
}

/// Two rows with one id contradict each other, however much of them is readable; neither can be relied on.
fn distrust_repeated_ids(rows: &mut [Row]) {
    let mut seen = HashSet::with_capacity(rows.len());
    let ids = rows.iter().filter_map(|row| match row {
        Row::Container(container) => Some(&container.id),
        Row::Unreadable(row) => row.id.as_ref(),
    });
    let repeated: HashSet<ContainerId> = ids.filter(|id| !seen.insert(*id)).cloned().collect();
    for row in rows.iter_mut().filter(|_| !repeated.is_empty()) {
        if let Row::Container(container) = row
            && repeated.contains(&container.id)
        {
            *row = Row::Unreadable(Box::new(UnreadableRow {
                id: Some(container.id.clone()),
                name: Some(container.name.clone()),
                labels: Some(container.labels.clone()),
                problem: "its id stands in several rows".to_owned(),
            }));
        }
    }
}
