//! The manifests, as `kubectl apply -k` makes them, by Kubernetes' own schemas.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{Line, check_lines, folder, texts};
use crate::harness::{Finished, Program};

/// The oldest version that the manifests are for, and the newest whose schemas are there.
const VERSIONS: [&str; 2] = ["1.31.0", "1.37.0"];

/// Reads YAML, several documents, and writes a JSON array.
const TO_JSON: &str = "import json, sys, yaml; \
    print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";

struct Tools {
    kustomize: PathBuf,
    schemas: PathBuf,
}

impl Tools {
    fn find() -> Option<Tools> {
        let kustomize = testing::tool("bin/kustomize")?;
        Some(Tools { kustomize, schemas: testing::tool("kubernetes-validate")? })
    }

    fn build(&self, folder: &Path) -> Finished {
        Program::run(Command::new(&self.kustomize).arg("build").arg(folder))
    }

    fn python(&self) -> Command {
        let mut python = Command::new("python3");
        python.env("PYTHONPATH", &self.schemas);
        python
    }

    /// Checks manifests against the schemas of `version`, in which nothing else may stand.
    fn check(&self, manifests: &Path, version: &str) -> Finished {
        let mut python = self.python();
        python.args(["-m", "kubernetes_validate", "--strict", "-k", version]);
        Program::run(python.arg(manifests))
    }
}

/// All resources.
fn resources(tools: &Tools) -> Vec<Value> {
    let built = tools.build(&folder("kubernetes"));
    assert_eq!(built.code(), Some(0), "{built:?}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("all.yaml");
    fs::write(&file, built.stdout).unwrap();
    for version in VERSIONS {
        let checked = tools.check(&file, version);
        assert_eq!(checked.code(), Some(0), "{checked:?}");
    }
    let json = Program::run(tools.python().args(["-c", TO_JSON]).arg(&file));
    serde_json::from_str(&json.stdout).unwrap()
}

/// The seconds of `--grace`.
pub(super) fn grace(arguments: &[String]) -> u64 {
    let grace = arguments.iter().find_map(|argument| argument.strip_prefix("--grace="));
    grace.unwrap().parse().unwrap()
}

fn kind<'a>(all: &'a [Value], kind: &str) -> impl Iterator<Item = &'a Value> {
    all.iter().filter(move |resource| resource["kind"] == *kind)
}

#[test]
fn manifests_are_as_kubernetes_has_them() {
    let Some(tools) = Tools::find() else { return };
    let all = resources(&tools);
    assert!(all.len() > 10, "{all:?}");
    let sets: Vec<&Value> = kind(&all, "StatefulSet").collect();
    let pods: Vec<&Value> = sets.iter().map(|set| &set["spec"]["template"]).collect();
    let has_labels = |labels: &Value| {
        let labels = labels.as_object().unwrap();
        pods.iter()
            .any(|pod| labels.iter().all(|(name, value)| pod["metadata"]["labels"][name] == *value))
    };
    let containers: Vec<&Value> =
        pods.iter().flat_map(|pod| pod["spec"]["containers"].as_array().unwrap()).collect();
    let ports: Vec<&Value> =
        containers.iter().flat_map(|one| one["ports"].as_array().unwrap()).collect();
    // What services, policies and budgets name is there.
    for service in kind(&all, "Service") {
        assert!(has_labels(&service["spec"]["selector"]), "{service}");
        for port in service["spec"]["ports"].as_array().unwrap() {
            assert!(ports.iter().any(|one| one["name"] == port["targetPort"]), "{port}");
        }
    }
    for budget in kind(&all, "PodDisruptionBudget") {
        assert!(has_labels(&budget["spec"]["selector"]["matchLabels"]), "{budget}");
    }
    for policy in kind(&all, "NetworkPolicy") {
        assert!(has_labels(&policy["spec"]["podSelector"]["matchLabels"]), "{policy}");
        for rule in policy["spec"]["ingress"].as_array().unwrap() {
            let port = &rule["ports"][0]["port"];
            assert!(ports.iter().any(|one| one["name"] == *port), "{rule}");
            // Streams alone are for everybody.
            assert_eq!(rule["from"].is_null(), *port == "streams", "{rule}");
        }
    }
    for container in &containers {
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            let port = &container[probe]["httpGet"]["port"];
            let own = container["ports"].as_array().unwrap();
            assert!(own.iter().any(|one| one["name"] == *port), "{probe}: {port}");
        }
    }
    for set in sets {
        let service = &set["spec"]["serviceName"];
        let is_there = kind(&all, "Service").any(|one| one["metadata"]["name"] == *service);
        assert!(is_there, "{service}");
    }
}

#[test]
fn nodes_start_with_a_line_that_is_understood_and_may_end_in_order() {
    let Some(tools) = Tools::find() else { return };
    let all = resources(&tools);
    let set = kind(&all, "StatefulSet").find(|set| set["metadata"]["name"] == "encke").unwrap();
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["command"], serde_json::json!(["encke"]));
    let variables = container["env"].as_array().unwrap();
    let variables = variables.iter().map(|one| one["name"].as_str().unwrap().to_owned());
    let variables: Vec<String> = variables.collect();
    // What stands as $(NAME) is a variable, and becomes its value.
    let arguments = texts(&container["args"]).into_iter().map(|mut argument| {
        for name in &variables {
            argument = argument.replace(&format!("$({name})"), "encke-0");
        }
        assert!(!argument.contains("$("), "{argument}");
        argument
    });
    let line = Line { arguments: arguments.collect(), variables: variables.clone() };
    let pre_stop: u64 = container["lifecycle"]["preStop"]["exec"]["command"][1]
        .as_str()
        .and_then(|seconds| seconds.parse().ok())
        .unwrap();
    let stop = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(pre_stop + grace(&line.arguments) + 5 <= stop);
    let host = |name: &str| {
        let names = line.arguments.iter().filter_map(|one| one.strip_prefix("--api-host="));
        names.flat_map(|names| names.split(',')).any(|one| one == name)
    };
    assert!(host("encke-api"), "applications call it by the service's name");
    check_lines(&[line]);
}

#[test]
fn manifests_with_a_slip_are_refused() {
    let Some(tools) = Tools::find() else { return };
    let built = tools.build(&folder("kubernetes"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("all.yaml");
    for (what, slip) in [
        ("readinessProbe:", "readyProbe:"),
        ("replicas: 3", "replicas: three"),
        ("policyTypes:", "policytypes:"),
        ("maxUnavailable: 1", "maxUnavailable: [1]"),
    ] {
        fs::write(&file, built.stdout.replace(what, slip)).unwrap();
        let checked = tools.check(&file, VERSIONS[1]);
        assert!(built.stdout.contains(what) && checked.code() == Some(1), "{slip}: {checked:?}");
    }
}

/// NATS reads the settings of both deployments itself.
#[test]
fn settings_of_nats_are_read_by_nats() {
    let Some(program) = testing::nats_current() else { return };
    let read = |path: &Path| {
        let mut command = Command::new(&program);
        command.arg("-t").arg("-c").arg(path);
        Program::run(command.env("POD_NAME", "nats-0").env("NATS_PASSWORD", "secret"))
    };
    for path in ["kubernetes/nats.conf", "compose/nats.conf"] {
        let checked = read(&folder(path));
        assert_eq!(checked.code(), Some(0), "{path}: {checked:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nats.conf");
    let slip = super::text("kubernetes/nats.conf").replace("sync_interval", "sync_intervals");
    fs::write(&file, slip).unwrap();
    assert_eq!(read(&file).code(), Some(1));
}
