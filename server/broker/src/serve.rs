//! The broker's life: open, serve, drain, close.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use powerqueue_net::{Drain, DrainSignal, Listener, Settings, Stats};
use powerqueue_sqs::Sqs;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use powerqueue_admission::{Admission, Clock};

use crate::config::{Config, Loaded};
use crate::data_dir::DataDir;
use crate::endpoints::{self, Endpoints};
use crate::metrics::{self, Metrics};
use crate::node::{RunningNode, open_node};
use crate::readiness::{Phase, Readiness};
use crate::signals::{Signals, hangups};
use crate::statistics::{self, Sources, Statistics};
use crate::tls::{Tls, TlsMetrics};
use crate::website::{self, Site};
use crate::{
    admission, control, front_ends, health, identifier, listeners, logging, service_manager,
};

/// The exit code when a second signal cuts the drain short, as a shell reports an interrupted program.
const INTERRUPTED: u8 = 130;

/// Serves until told to stop.
///
/// # Errors
/// [`Failure`](crate::failure::Failure) for what the operator has to change; anything else for what broke.
pub fn run(loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let config = &loaded.config;
    logging::start(&config.log)?;
    let data = DataDir::open(&config.data)?;
    let identifier = identifier::load_or_make(&data)?;
    let mut opened = listeners::open(loaded)?;
    opened.warnings.extend(config.doubts());
    let tls = Tls::open(config, &data)?;
    opened.warnings.extend(tls.as_ref().and_then(Tls::warning));
    for warning in &opened.warnings {
        tracing::warn!("{warning}");
    }
    let endpoints = Endpoints {
        mode: config.mode,
        data: data.path(),
        identifier,
        listeners: endpoints::addresses(&opened.listeners),
        tls: tls
            .as_ref()
            .map(|tls| tls.standing().listeners().to_vec())
            .unwrap_or_default(),
        authority: tls.as_ref().and_then(Tls::authority),
        warnings: opened.warnings,
    };
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(live(config, data, tls, opened.listeners, endpoints))
}

async fn live(
    config: &Config,
    data: DataDir,
    tls: Option<Tls>,
    listeners: Vec<Listener>,
    endpoints: Endpoints,
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let standing = tls.as_ref().map(Tls::standing);
    let readiness = Arc::new(Readiness::new(&endpoints.listeners).over(standing));
    let admission = Admission::new(admission::settings(&config.limits)?, &Clock::system());
    let site = Arc::new(Site::new(config, &endpoints, &admission)?);
    let (mut observers, waiting) =
        Listening::start(config, tls.as_ref(), listeners, &readiness, &site)?;

    // Until the store is open there is nothing to drain: a signal just ends the process.
    let node = tokio::select! {
        node = service_manager::patiently(open_node(config, &data)) => node?,
        signal = signals.next() => {
            tracing::info!(signal, "stopped while starting");
            return Ok(ExitCode::SUCCESS);
        }
    };

    admission::restore(&admission, node.node());
    let keeper = tokio::spawn(admission::keep(admission.clone(), node.node().clone()));
    observers.metrics.watch_node(node.node().clone())?;
    observers.metrics.watch_admission(admission.clone())?;
    readiness.watch(node.node().clone());
    // From here on the data directory is ours alone.
    if let Some(tls) = tls {
        observers.keep(tls, config);
    }
    let sqs = front_ends::sqs(config, node.node(), &admission);
    let statistics = Arc::new(Statistics::start(Sources {
        node: node.node().clone(),
        admission: admission.clone(),
        sqs: Arc::clone(sqs.traffic()),
        listeners: observers.stats.clone(),
    }));
    site.open(sqs.clone(), Arc::clone(&statistics));
    let sampler = tokio::spawn(statistics::keep(Arc::clone(&statistics)));
    observers
        .metrics
        .watch_traffic(vec![Arc::clone(sqs.traffic())])?;
    let mut front_ends = FrontEnds::start(&sqs, &admission, waiting);
    readiness.enter(Phase::Ready);
    service_manager::ready();
    endpoints.announce();

    let broken = tokio::select! {
        signal = signals.next() => {
            tracing::info!(signal, "stopping");
            None
        }
        () = node.node().failed() => None,
        ended = front_ends.tasks.join_next(), if !front_ends.tasks.is_empty() => ended,
        ended = observers.tasks.join_next(), if !observers.tasks.is_empty() => ended,
        () = service_manager::watch(observers.stats.clone()) => None,
        () = control::serve(&endpoints.data, node.node().clone()) => None,
    };
    keeper.abort();
    sampler.abort();
    tokio::select! {
        drained = service_manager::patiently(
            drain(config, &readiness, node, (&admission, &statistics), front_ends, observers)
        ) => drained?,
        signal = signals.next() => {
            tracing::warn!(signal, "stopping at once");
            return Ok(ExitCode::from(INTERRUPTED));
        }
    }
    match broken {
        None => Ok(ExitCode::SUCCESS),
        Some(ended) => {
            ended.context("a listener broke")??;
            anyhow::bail!("a listener ended by itself")
        }
    }
}

/// Finishes what was begun, front ends first; who watches us can watch until the end.
async fn drain(
    config: &Config,
    readiness: &Readiness,
    node: RunningNode,
    (admission, statistics): (&Admission, &Statistics),
    front_ends: FrontEnds,
    observers: Listening,
) -> anyhow::Result<()> {
    let grace = config.shutdown.grace.duration();
    service_manager::stopping();
    readiness.enter(Phase::Draining);
    // Long polls end now, with what they have.
    node.node().drain();
    front_ends.stop.start(grace);
    front_ends.tasks.join_all().await;
    admission::save(admission, node.node());
    statistics.step();
    statistics.save();
    let closed = node.close().await;
    observers.stop.start(std::time::Duration::from_secs(1));
    observers.tasks.join_all().await;
    closed
}

type Tasks = JoinSet<std::io::Result<()>>;

/// The listeners that answer from the first moment to the last: website, health, metrics.
struct Listening {
    tasks: Tasks,
    stop: DrainSignal,
    stats: Vec<Arc<Stats>>,
    metrics: Arc<Metrics>,
    /// Told at SIGHUP.
    hangup: Arc<Notify>,
    drain: Drain,
}

/// The listeners that wait for the store.
struct FrontEnds {
    tasks: Tasks,
    stop: DrainSignal,
}

impl Listening {
    /// Starts them, and gives back the others with their settings.
    fn start(
        config: &Config,
        tls: Option<&Tls>,
        listeners: Vec<Listener>,
        readiness: &Arc<Readiness>,
        site: &Arc<Site>,
    ) -> anyhow::Result<(Self, Vec<(Listener, Settings)>)> {
        let connections = listeners::connections(config.http.max_connections);
        let all: Vec<(Listener, Settings)> = listeners
            .into_iter()
            .map(|listener| {
                let mut settings = config.serving(listener.name());
                settings.sizes.connections = connections;
                if let Some(tls) = tls {
                    settings.tls = tls.http(listener.name())?;
                }
                Ok((listener, settings))
            })
            .collect::<anyhow::Result<_>>()?;
        let stats: Vec<(String, Arc<Stats>)> = all
            .iter()
            .map(|(listener, settings)| (listener.name().to_owned(), Arc::clone(&settings.stats)))
            .collect();
        let metrics = Arc::new(Metrics::new(Arc::clone(readiness), &stats)?);
        if let Some(tls) = tls {
            metrics.watch_tls(TlsMetrics::new(tls.standing(), &stats)?)?;
        }
        let (stop, drain) = Drain::new();
        let mut tasks = Tasks::new();
        let hangup = Arc::new(Notify::new());
        tasks.spawn(hangups(Arc::clone(&hangup), drain.clone()));
        let mut waiting = Vec::new();
        for (listener, settings) in all {
            let router = match listener.name() {
                "http" => {
                    let challenges = tls.and_then(Tls::challenges).unwrap_or_default();
                    let routes = health::site(Arc::clone(readiness)).merge(challenges);
                    let handler = website::handler(Arc::clone(site), health::handler(routes));
                    tasks.spawn(powerqueue_net::serve(
                        listener,
                        settings,
                        drain.clone(),
                        handler,
                    ));
                    continue;
                }
                "metrics" => metrics::site(Arc::clone(&metrics)),
                _ => {
                    waiting.push((listener, settings));
                    continue;
                }
            };
            let handler = health::handler(router);
            tasks.spawn(powerqueue_net::serve(
                listener,
                settings,
                drain.clone(),
                handler,
            ));
        }
        let stats = stats.into_iter().map(|(_, stats)| stats).collect();
        let listening = Self {
            tasks,
            stop,
            stats,
            metrics,
            hangup,
            drain,
        };
        Ok((listening, waiting))
    }

    /// Keeps the certificate fresh from now on.
    fn keep(&mut self, tls: Tls, config: &Config) {
        let upkeep = tls.upkeep(config);
        self.tasks
            .spawn(upkeep.run(Arc::clone(&self.hangup), self.drain.clone()));
    }
}

impl FrontEnds {
    /// Starts serving each protocol on its listener.
    fn start(sqs: &Sqs, admission: &Admission, listeners: Vec<(Listener, Settings)>) -> Self {
        let (stop, drain) = Drain::new();
        let mut tasks = Tasks::new();
        for (listener, settings) in listeners {
            // One line a protocol.
            match listener.name() {
                "sqs" => {
                    let (sqs, admission) = (sqs.clone(), admission.clone());
                    let handler = move |request| {
                        front_ends::answer_sqs(sqs.clone(), admission.clone(), request)
                    };
                    tasks.spawn(powerqueue_net::serve(
                        listener,
                        settings,
                        drain.clone(),
                        handler,
                    ));
                }
                name => tracing::error!(name, "a listener without a front end"),
            }
        }
        Self { tasks, stop }
    }
}
