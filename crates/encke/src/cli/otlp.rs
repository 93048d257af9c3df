//! The options of `encke serve` about traces.
//!
//! Each has the variable that OpenTelemetry's standard gives it, besides its own
//! (`settings/environment.rs`).

use std::str::FromStr;

use clap::{Args, ValueEnum};
use server::{CollectorUrl, Sampling, TraceHeaders, TracesConfig};

/// Where traces of sends go.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Traces")]
pub(crate) struct OtlpArgs {
    /// URL of an OpenTelemetry collector for a trace of each send; `none` disables it.
    ///
    /// OTLP over HTTP: http://HOST:4318, or https.
    #[arg(long, value_name = "URL", default_value = "none")]
    otlp: Otlp,
    /// Headers for the collector, such as a key: NAME=VALUE, with commas between several.
    ///
    /// Better give them as OTEL_EXPORTER_OTLP_HEADERS or in --config: others on this machine can
    /// read a command line.
    #[arg(long, value_name = "LIST")]
    otlp_headers: Option<TraceHeaders>,
    /// Name of this server in traces.
    ///
    /// Default: encke.
    #[arg(long, value_name = "NAME")]
    otlp_service: Option<String>,
    /// Which sends get a trace.
    ///
    /// With parentbased, the caller's traceparent decides. The rest of the name is about sends
    /// without one.
    #[arg(long, value_name = "NAME", default_value = "parentbased_traceidratio")]
    otlp_sampler: TraceSampler,
    /// Share of sends that traceidratio makes a trace of, from 0 to 1.
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = parse_ratio)]
    otlp_ratio: f64,
}

/// A collector, or none.
#[derive(Clone, Debug)]
struct Otlp(Option<CollectorUrl>);

impl FromStr for Otlp {
    type Err = String;

    fn from_str(text: &str) -> Result<Otlp, String> {
        match text {
            "none" => Ok(Otlp(None)),
            url => Ok(Otlp(Some(url.parse()?))),
        }
    }
}

/// As OTEL_TRACES_SAMPLER names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum TraceSampler {
    AlwaysOn,
    AlwaysOff,
    #[value(name = "traceidratio")]
    Ratio,
    #[value(name = "parentbased_always_on")]
    ParentBasedAlwaysOn,
    #[value(name = "parentbased_always_off")]
    ParentBasedAlwaysOff,
    #[value(name = "parentbased_traceidratio")]
    ParentBasedRatio,
}

impl TraceSampler {
    fn sampling(self, ratio: f64) -> Sampling {
        use TraceSampler::{
            AlwaysOff, AlwaysOn, ParentBasedAlwaysOff, ParentBasedAlwaysOn, ParentBasedRatio, Ratio,
        };
        let parent_based =
            matches!(self, ParentBasedAlwaysOn | ParentBasedAlwaysOff | ParentBasedRatio);
        let ratio = match self {
            AlwaysOn | ParentBasedAlwaysOn => 1.0,
            AlwaysOff | ParentBasedAlwaysOff => 0.0,
            Ratio | ParentBasedRatio => ratio,
        };
        Sampling { parent_based, ratio }
    }
}

impl OtlpArgs {
    /// Where traces go; `None` unless a collector is named.
    pub(crate) fn config(self) -> Option<TracesConfig> {
        Some(TracesConfig {
            collector: self.otlp.0?,
            headers: self.otlp_headers.unwrap_or_default(),
            service: self.otlp_service,
            sampling: self.otlp_sampler.sampling(self.otlp_ratio),
        })
    }
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "write a number from 0 to 1".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampler_is_what_the_standard_calls_it() {
        for (name, parent_based, ratio) in [
            ("always_on", false, 1.0),
            ("always_off", false, 0.0),
            ("traceidratio", false, 0.25),
            ("parentbased_always_on", true, 1.0),
            ("parentbased_always_off", true, 0.0),
            ("parentbased_traceidratio", true, 0.25),
        ] {
            let sampler = TraceSampler::from_str(name, false).unwrap();
            assert_eq!(sampler.sampling(0.25), Sampling { parent_based, ratio }, "{name}");
        }
        for text in ["-1", "1.1", "NaN", "x", ""] {
            assert!(parse_ratio(text).is_err(), "{text}");
        }
    }
}
