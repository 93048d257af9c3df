//! Webhooks over the nodes of a cluster: which node tells those of an app, and what drives it.
//!
//! [`AppReports`] is what a node knows of one app. What the log says comes by [`SubjectRooms`];
//! what was taken, and what was not, nodes tell each other ([`HookMessages`]). A node that has no
//! connection to NATS reports nothing: the others may have declared it gone, and report themselves.
//!
//! Cost: of an app a message every five seconds from the node that reports, and two a second while
//! webhooks take something.

use std::collections::HashMap;
use std::sync::Arc;

use cluster::RoomChange;
use engine::ServedApp;
use tokio::sync::mpsc;

use super::PusherHooks;
use super::app_reports::{AppReports, PAUSE_MS, kept_of};
use super::reports::SubjectChanges;
use crate::cluster::{Cluster, HookMessages, HooksAsked, HooksEnded, HooksKept, HooksTaken};
use crate::subject_rooms::{Subject, SubjectAction, SubjectRooms, SubjectStep};

/// How often it is told what was taken, where something was, and where nothing was.
const TELL_MS: u64 = 500;
const TELL_AGAIN_MS: u64 = 5_000;

/// Answers that wait to be looked at. Each app asks one question at a time.
const ANSWERS_WAITING: usize = 64;

/// Steps of the log that are taken in one go.
const STEPS_SLICE: usize = 256;

struct KeptAnswer {
    asked: HooksAsked,
    kept: HooksKept,
}

/// What webhooks are to be told of one app.
pub(super) struct AppReport {
    pub(super) app: Box<str>,
    pub(super) told: SubjectChanges,
    /// This node has begun to report: all numbers of the app are to be told.
    pub(super) has_begun: bool,
}

/// What a node does about the webhooks of all nodes.
pub(super) struct Reporter {
    cluster: Arc<Cluster>,
    rooms: Arc<SubjectRooms>,
    steps: mpsc::Receiver<SubjectStep>,
    messages: Option<HookMessages>,
    epoch: u64,
    apps: HashMap<Box<str>, AppReports>,
    answered: mpsc::Sender<KeptAnswer>,
    answers: mpsc::Receiver<KeptAnswer>,
    /// When it is told again what was taken, and whether something was since.
    tell_ms: u64,
    tell_again_ms: u64,
    has_taken: bool,
    /// It reports nothing any more.
    has_ended: bool,
}

impl Reporter {
    /// One that knows of no app. `None` where another one has begun.
    pub(super) fn new(cluster: Arc<Cluster>, hooks: &PusherHooks) -> Option<Reporter> {
        let (answered, answers) = mpsc::channel(ANSWERS_WAITING);
        Some(Reporter {
            cluster,
            rooms: Arc::clone(hooks.rooms()),
            steps: hooks.take_steps()?,
            messages: None,
            epoch: 0,
            apps: HashMap::new(),
            answered,
            answers,
            tell_ms: 0,
            tell_again_ms: 0,
            has_taken: false,
            has_ended: false,
        })
    }

    /// What this node has of apps, for all.
    pub(super) fn rooms(&self) -> &Arc<SubjectRooms> {
        &self.rooms
    }

    /// The apps were read: those with webhooks are to be known.
    pub(super) fn take_apps(&mut self, apps: &[ServedApp]) {
        let has_hooks = |id: &str| {
            apps.iter().any(|served| served.app.id == id && !served.app.webhooks.is_empty())
        };
        let rooms = &self.rooms;
        self.apps.retain(|id, _| {
            let stays = has_hooks(id);
            if !stays {
                rooms.leave(id);
            }
            stays
        });
        for served in apps.iter().filter(|served| !served.app.webhooks.is_empty()) {
            self.apps.entry(served.app.id.as_str().into()).or_insert_with(|| {
                rooms.want(&served.app.id);
                AppReports::new()
            });
        }
    }

    /// Whether this node tells the webhooks of the app.
    pub(super) fn reports(&self, app: &str) -> bool {
        self.apps.get(app).is_some_and(|of| of.reports.is_reporting())
    }

    /// Whether the last that was to be told of a subject of the app is that it is there.
    pub(super) fn knows(&self, app: &str, subject: &Subject) -> bool {
        self.apps.get(app).is_some_and(|of| of.reports.knows(subject))
    }

    /// Those who are there, of an app that this node reports.
    pub(super) fn there(&self, app: &str) -> Vec<Subject> {
        self.apps.get(app).into_iter().flat_map(|of| of.reports.there()).cloned().collect()
    }

    /// Takes what the log and the other nodes have said, and what time has brought.
    pub(super) async fn look(&mut self, now_ms: u64, hooks: &PusherHooks) -> Vec<AppReport> {
        let mut told: HashMap<Box<str>, AppReport> = HashMap::new();
        for _ in 0..STEPS_SLICE {
            let Ok(step) = self.steps.try_recv() else { break };
            self.step(step, now_ms, &mut told);
        }
        if self.messages.is_none() && !self.apps.is_empty() && self.cluster.is_connected() {
            self.messages = self.cluster.hook_messages().await;
        }
        self.hear(now_ms).await;
        let is_connected = self.cluster.is_connected();
        let has_others = self.cluster.has_others();
        let (epoch, mut asked) = (self.epoch, Vec::new());
        for (id, app) in &mut self.apps {
            if !is_connected {
                app.begin_ms = now_ms + PAUSE_MS;
            }
            let may_report = is_connected && app.is_me && !self.has_ended;
            let mut updates = SubjectChanges::new();
            let mut has_begun = false;
            if !may_report {
                app.reports.end();
            } else if !app.reports.is_reporting() && app.is_ready(now_ms, has_others) {
                app.reports.begin(now_ms, &mut updates);
                (has_begun, app.has_queues) = (true, true);
            }
            app.reports.tick(now_ms, &mut updates);
            if !app.reports.is_reporting() {
                told.remove(id);
                if std::mem::take(&mut app.has_queues) {
                    // What waits here another node tells.
                    hooks.end_reports(id);
                }
            }
            if !updates.is_empty() || has_begun {
                let entry = told.entry(id.clone()).or_insert_with(|| AppReport::new(id));
                entry.told.extend(updates);
                entry.has_begun |= has_begun;
            }
            if is_connected && has_others && app.is_to_ask(now_ms) {
                app.is_asking = true;
                let at = app.reports.asks_up_to();
                asked.extend(at.map(|at| HooksAsked { epoch, app: id.clone(), at }));
            }
        }
        asked.into_iter().for_each(|asked| self.ask(asked));
        told.into_values().collect()
    }

    fn step(&mut self, step: SubjectStep, now_ms: u64, told: &mut HashMap<Box<str>, AppReport>) {
        let SubjectStep { epoch, sequence, actions, .. } = step;
        self.epoch = epoch;
        self.apps.values_mut().for_each(|app| app.reports.read(sequence));
        for action in actions {
            let id = match &action {
                SubjectAction::Lost => {
                    self.apps.values_mut().for_each(AppReports::lose);
                    continue;
                }
                // What this node has it says always.
                SubjectAction::Heard { .. } => continue,
                SubjectAction::Settled { app, .. }
                | SubjectAction::Changed { app, .. }
                | SubjectAction::First { app, .. } => app.clone(),
            };
            let Some(app) = self.apps.get_mut(&id) else { continue };
            let mut updates = SubjectChanges::new();
            match action {
                SubjectAction::Lost | SubjectAction::Heard { .. } => {}
                SubjectAction::Settled { subjects, .. } => {
                    let subjects = subjects.into_iter().map(|(subject, _)| subject).collect();
                    app.reports.settled(subjects, now_ms, &mut updates);
                }
                SubjectAction::Changed { change: RoomChange::Renewed(_), .. } => {}
                SubjectAction::Changed { subject, change, .. } => {
                    let is_there = matches!(change, RoomChange::Joined(_));
                    app.reports.changed(subject, is_there, now_ms, &mut updates);
                }
                SubjectAction::First { node, is_me, .. } => app.take_first(node, is_me, now_ms),
            }
            if !updates.is_empty() {
                told.entry(id.clone()).or_insert_with(|| AppReport::new(&id)).told.extend(updates);
            }
        }
    }

    /// Takes what other nodes have told, answers what they ask, and takes their answers.
    async fn hear(&mut self, now_ms: u64) {
        while let Ok(KeptAnswer { asked, kept }) = self.answers.try_recv() {
            let Some(app) = self.apps.get_mut(&asked.app) else { continue };
            // What was asked of another log says nothing of this one.
            let kept = if asked.epoch == self.epoch { kept } else { HooksKept::Unfinished };
            app.take_answer(asked.at, kept, now_ms);
        }
        let Some(messages) = &mut self.messages else { return };
        while let Some(HooksTaken { epoch, by, apps }) = messages.next_taken() {
            for (id, sequence) in apps {
                let app = self.apps.get_mut(&id).filter(|app| app.is_told_by(by));
                if let Some(app) = app.filter(|_| epoch == self.epoch) {
                    app.reports.taken_up_to(sequence);
                }
            }
        }
        while let Some(ended) = messages.next_ended() {
            if let Some(app) = self.apps.get_mut(&ended.app).filter(|_| ended.epoch == self.epoch) {
                app.take_ended(ended, now_ms);
            }
        }
        while let Some(question) = messages.next_question() {
            let HooksAsked { epoch, app, at } = &question.asked;
            let app = self.apps.get(app).filter(|_| *epoch == self.epoch);
            if let Some(kept) = app.and_then(|app| app.reports.kept_up_to(*at)) {
                let changes = kept.map(|change| kept_of(change, now_ms)).collect();
                self.cluster.answer_hooks_kept(&question, changes).await;
            }
        }
    }

    /// Asks the others, who answer when they look next.
    fn ask(&self, asked: HooksAsked) {
        let (cluster, answered) = (Arc::clone(&self.cluster), self.answered.clone());
        tokio::spawn(async move {
            let kept = cluster.ask_hooks_kept(&asked).await;
            let _ = answered.send(KeptAnswer { asked, kept }).await;
        });
    }

    /// What was told is in the queues of the webhooks: looks what of all that was taken, and tells
    /// the others.
    pub(super) async fn settle(&mut self, now_ms: u64, hooks: &PusherHooks) {
        let (mut by, mut taken, mut repeated) = (None, Vec::new(), Vec::new());
        for (id, app) in &mut self.apps {
            if let Some((by, sequence)) = app.repeated() {
                let apps = vec![(id.clone(), sequence)];
                repeated.push(HooksTaken { epoch: self.epoch, by, apps });
            }
            app.reports.handed(|| hooks.marks(id));
            self.has_taken |= app.reports.take(|marks| hooks.is_taken(id, marks));
            if let Some(sequence) = app.reports.taken() {
                by = app.first;
                taken.push((id.clone(), sequence));
            }
        }
        for message in &repeated {
            // What is not told costs doubles.
            self.cluster.tell_hooks_taken(message).await;
        }
        let ends = hooks.is_to_end() && hooks.is_empty();
        let is_due = self.has_taken && now_ms >= self.tell_ms || now_ms >= self.tell_again_ms;
        if let Some(by) = by.filter(|_| is_due || ends) {
            let message = HooksTaken { epoch: self.epoch, by, apps: taken };
            if self.cluster.tell_hooks_taken(&message).await {
                self.has_taken = false;
                self.tell_ms = now_ms + TELL_MS;
                self.tell_again_ms = now_ms + TELL_AGAIN_MS;
            }
        }
        if ends {
            self.hand_over(now_ms).await;
            self.has_ended = true;
            hooks.has_ended();
        }
    }

    /// All that was told was taken, and nothing more is told: the next node goes on from here.
    async fn hand_over(&self, now_ms: u64) {
        for (id, of) in &self.apps {
            let Some((by, (at, pending))) = of.first.zip(of.reports.pending()) else { continue };
            let pending = pending.into_iter().map(|change| kept_of(change, now_ms)).collect();
            let ended = HooksEnded { epoch: self.epoch, by, app: id.clone(), at, pending };
            self.cluster.tell_hooks_ended(&ended).await;
        }
    }
}

impl AppReport {
    fn new(app: &str) -> AppReport {
        AppReport { app: app.into(), told: SubjectChanges::new(), has_begun: false }
    }
}
