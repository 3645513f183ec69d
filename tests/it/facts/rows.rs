//! Containers and sessions in the making.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sandkeeper::domain::container::{
    Inspected, Inspection, Joins, Mount, Namespace, Process, ProcessList, Processes,
};
use sandkeeper::domain::session::Moment;
use sandkeeper::domain::snapshot::{ImageFact, TagFact};
use sandkeeper::domain::{Container, ContainerState, Labels, Session};

use super::{IMAGE, ago, id_of};

/// A container in the making.
#[derive(Clone, Debug)]
pub(crate) struct Sandbox {
    pub(crate) container: Container,
    /// What is known of its image, if that is not the common one.
    pub(super) image: Option<ImageFact>,
    /// What is known of its tag, if that is not the common one.
    pub(super) tag: Option<TagFact>,
}

/// A native container, running for two hours.
pub(crate) fn sandbox(name: &str) -> Sandbox {
    bare(name).label("sandkeeper.managed", "true")
}

/// A Parachute container with its config hash, running for two hours.
pub(crate) fn parachute(name: &str, hash: &str) -> Sandbox {
    bare(name).label("app", "parachute").label("config_hash", hash)
}

/// The first process of a container.
fn first(command: &str) -> Process {
    let (leader, began) = (Some(FIRST), Some(Duration::ZERO));
    Process { pid: FIRST, parent: None, leader, began, command: command.to_owned() }
}

/// The number of every container's first process.
pub(crate) const FIRST: u32 = 100;

/// A process: its number, its parent's (0 for one that is not in the list), who leads its session, how many seconds after the
/// first it began, and its command line.
pub(crate) fn process(pid: u32, parent: u32, leader: u32, began: u64, command: &str) -> Process {
    Process {
        pid,
        parent: (parent != 0).then_some(parent),
        leader: Some(leader),
        began: Some(Duration::from_secs(began)),
        command: command.to_owned(),
    }
}

/// A container without labels, running for two hours. It only waits.
pub(crate) fn bare(name: &str) -> Sandbox {
    let inspection = Inspection {
        image_reference: IMAGE.0.to_owned(),
        started_at: Some(ago("2h")),
        processes: Processes::Listed(ProcessList { first: first("sleep infinity"), others: Vec::new() }),
        ..Inspection::default()
    };
    let container = Container {
        id: id_of(name),
        name: name.to_owned(),
        image: IMAGE.0.into(),
        image_id: IMAGE.1.into(),
        labels: Labels::default(),
        state: ContainerState::Running,
        created_at: ago("2h"),
        mounts: Arc::default(),
        joins: Joins::NotAsked,
        inspected: Inspected::Facts(Box::new(inspection)),
    };
    Sandbox { container, image: None, tag: None }
}

impl Sandbox {
    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.container.labels = self.container.labels.iter().chain([(key, value)]).collect();
        self
    }

    pub(crate) fn workspace(self, workspace: &str) -> Self {
        self.label("sandkeeper.workspace", workspace)
    }

    pub(crate) fn hash(self, hash: &str) -> Self {
        self.label("sandkeeper.config-hash", hash)
    }

    pub(crate) fn persistent(self, persistent: bool) -> Self {
        self.label("sandkeeper.persistent", if persistent { "true" } else { "false" })
    }

    pub(crate) fn instance(self, instance: &str) -> Self {
        self.label("sandkeeper.instance", instance)
    }

    /// `running`, `exited`, or whatever word the engine uses.
    pub(crate) fn state(mut self, word: &str) -> Self {
        self.container.state = ContainerState::parse(word);
        match self.container.state {
            ContainerState::Created => self.started(None),
            _ => self,
        }
    }

    /// Made so long ago, and started at once.
    pub(crate) fn created_ago(self, text: &str) -> Self {
        self.created_at(ago(text))
    }

    /// Made at this moment, and started at once.
    pub(crate) fn created_at(mut self, at: Timestamp) -> Self {
        self.container.created_at = at;
        let started = self.container.state != ContainerState::Created;
        self.started(started.then_some(at))
    }

    /// Last started at this moment, or never.
    pub(crate) fn started(self, at: Option<Timestamp>) -> Self {
        self.inspection(|inspection| inspection.started_at = at)
    }

    pub(crate) fn execs(self, running: usize) -> Self {
        self.inspection(|inspection| inspection.running_execs = running)
    }

    /// What its first process is.
    pub(crate) fn runs(self, command: &str) -> Self {
        let list = ProcessList { first: first(command), others: Vec::new() };
        self.inspection(|inspection| inspection.processes = Processes::Listed(list))
    }

    /// What else runs in it.
    pub(crate) fn beside(self, process: Process) -> Self {
        self.inspection(|inspection| {
            if let Processes::Listed(list) = &mut inspection.processes {
                list.others.push(process);
            }
        })
    }

    pub(crate) fn processes(self, processes: Processes) -> Self {
        self.inspection(|inspection| inspection.processes = processes)
    }

    /// Somebody can type in it.
    pub(crate) fn attached(self) -> Self {
        self.inspection(|inspection| inspection.attached = true)
    }

    pub(crate) fn terminal(self) -> Self {
        self.inspection(|inspection| inspection.terminal = true)
    }

    /// It lives in a namespace of another container.
    pub(crate) fn joins(mut self, namespace: Namespace, of: &str) -> Self {
        self.container.joins = Joins::Known(vec![(namespace, of.to_owned())]);
        self
    }

    /// Nobody could tell in whose namespaces it lives.
    pub(crate) fn joins_unread(mut self) -> Self {
        self.container.joins = Joins::Failed;
        self
    }

    /// Its restart policy starts it over and over.
    pub(crate) fn restarts_by_itself(self) -> Self {
        self.inspection(|inspection| inspection.restarts_by_itself = true)
    }

    /// Made with `--rm`.
    pub(crate) fn auto_remove(self) -> Self {
        self.inspection(|inspection| inspection.auto_remove = true)
    }

    fn inspection(mut self, change: impl FnOnce(&mut Inspection)) -> Self {
        if let Inspected::Facts(inspection) = &mut self.container.inspected {
            change(inspection);
        }
        self
    }

    pub(crate) fn inspect_failed(mut self, fault: &str) -> Self {
        self.container.inspected = Inspected::Failed(fault.to_owned());
        self
    }

    pub(crate) fn not_inspected(mut self) -> Self {
        self.container.inspected = Inspected::NotNeeded;
        self
    }

    pub(crate) fn bind(mut self, source: &str, target: &str) -> Self {
        let (source, target) = (source.to_owned(), target.to_owned());
        let mount = Mount { kind: "bind".to_owned(), source, target };
        self.container.mounts = self.container.mounts.iter().cloned().chain([mount]).collect();
        self
    }

    /// The engine gave no name for it.
    pub(crate) fn nameless(mut self) -> Self {
        self.container.name.clear();
        self
    }

    /// Made from an image of its own, about which this is known.
    pub(crate) fn image(mut self, fact: ImageFact) -> Self {
        self.container.image_id = format!("sha256:{}", self.container.id).into();
        let reference = format!("{}-image:latest", self.container.name);
        self.container.image = reference.as_str().into();
        self.tag = Some(TagFact::Names(self.container.image_id.to_string()));
        self.image = Some(fact);
        self.inspection(|inspection| inspection.image_reference = reference)
    }

    /// Made from an image of its own that carries these labels.
    pub(crate) fn image_labels(self, labels: &[(&str, &str)]) -> Self {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        self.image(ImageFact::Labels(labels.iter().map(owned).collect()))
    }

    /// Made from an image of its own, about whose tag this is known.
    pub(crate) fn tag(self, fact: TagFact) -> Self {
        Self { tag: Some(fact), ..self.image_labels(&[]) }
    }

    /// Its tag names another image now.
    pub(crate) fn image_moved(self) -> Self {
        self.tag(TagFact::Names("sha256:0ther".to_owned()))
    }

    /// Nobody asked the engine about its image.
    pub(crate) fn image_unasked(self) -> Self {
        Self { image: None, ..self.image_labels(&[]) }
    }
}

/// A session in the making.
#[derive(Clone, Debug)]
pub(crate) struct SessionRow(pub(crate) Session);

/// A session that began an hour ago, has done nothing since, and is not live.
pub(crate) fn session(id: &str) -> SessionRow {
    SessionRow(Session {
        id: id.to_owned(),
        started_at: Moment::At(ago("1h")),
        declared_live: Some(false),
        ..Session::default()
    })
}

impl SessionRow {
    pub(crate) fn workspace(mut self, workspace: &str) -> Self {
        self.0.workspace = Some(workspace.to_owned());
        self
    }

    /// Names its container.
    pub(crate) fn uses(mut self, container: &str) -> Self {
        self.0.container = Some(container.to_owned());
        self
    }

    pub(crate) fn title(mut self, title: &str) -> Self {
        self.0.title = Some(title.to_owned());
        self
    }

    /// The store says that it is live.
    pub(crate) fn live(self) -> Self {
        self.declared(Some(true))
    }

    /// The store's own word on whether it is live.
    pub(crate) fn declared(mut self, live: Option<bool>) -> Self {
        self.0.declared_live = live;
        self
    }

    pub(crate) fn started(mut self, at: Moment) -> Self {
        self.0.started_at = at;
        self
    }

    pub(crate) fn active_ago(self, text: &str) -> Self {
        self.active(Moment::At(ago(text)))
    }

    pub(crate) fn active(mut self, at: Moment) -> Self {
        self.0.last_activity_at = at;
        self
    }

    pub(crate) fn ended_ago(self, text: &str) -> Self {
        self.ended(Moment::At(ago(text)))
    }

    pub(crate) fn ended(mut self, at: Moment) -> Self {
        self.0.ended_at = at;
        self
    }

    /// The store holds `what` where its last activity should be.
    pub(crate) fn activity_unreadable(self, what: &str) -> Self {
        self.active(Moment::Unreadable(what.to_owned()))
    }
}
