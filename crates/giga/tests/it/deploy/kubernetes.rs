//! The Helm chart, as it was rendered into its golden file.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::files::{assert_accepted, assert_known, assert_own_version, read, root};
use super::yaml;
use crate::giga::Machine;

const GOLDEN: &str = "crates/giga/tests/it/golden/chart";

/// Long enough for a factory to save the work of its agents.
const FAREWELL_S: i64 = 90;

fn rendered() -> Vec<Value> {
    yaml::documents(&read(&format!("{GOLDEN}/rendered.yaml"))).into_iter().filter(Value::is_object).collect()
}

fn of_kind(kind: &str) -> Vec<Value> {
    rendered().into_iter().filter(|object| object["kind"] == kind).collect()
}

/// The pods of every workload, with the workload's name.
fn pods() -> Vec<(String, Value)> {
    let pods = rendered().into_iter().filter_map(|object| {
        let spec = &object["spec"];
        let template =
            if spec["jobTargetRef"].is_object() { &spec["jobTargetRef"]["template"] } else { &spec["template"] };
        template.is_object().then(|| (object["metadata"]["name"].as_str().unwrap().to_owned(), template.clone()))
    });
    pods.collect()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn variable(container: &Value, name: &str) -> Option<String> {
    let variable = list(container, "env").iter().find(|variable| variable["name"] == name)?;
    variable["value"].as_str().map(str::to_owned)
}

#[test]
fn the_golden_chart_is_rendered_from_the_present_one() {
    let mut templates: Vec<_> =
        std::fs::read_dir(root().join("deploy/helm/templates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    templates.sort();
    let chart = root().join("deploy/helm");
    let files = [chart.join("Chart.yaml"), chart.join("values.yaml")].into_iter().chain(templates);
    let mut digest = Sha256::new();
    for file in files.chain([root().join(GOLDEN).join("values.yaml")]) {
        digest.update(std::fs::read(file).unwrap());
    }
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();

    let golden = read(&format!("{GOLDEN}/rendered.yaml"));

    let is_fresh = golden.starts_with(&format!("# Rendered by scripts/check-deploy from {digest}\n"));
    assert!(is_fresh, "the chart was changed: run UPDATE_GOLDEN=1 scripts/check-deploy and read the diff");
    let described = yaml::documents(&read("deploy/helm/Chart.yaml")).remove(0);
    assert_eq!(described["appVersion"], env!("CARGO_PKG_VERSION"));
}

// [U3] [F9]
#[test]
fn every_pod_of_the_chart_runs_giga_without_privileges() {
    let machine = Machine::new();
    let pods = pods();
    assert_eq!(pods.len(), 4, "coordinators, the scaler and two pools");

    for (name, pod) in &pods {
        let spec = &pod["spec"];
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true, "{name}");
        assert_eq!(spec["securityContext"]["runAsUser"], 10_001, "{name}");
        assert_eq!(spec["automountServiceAccountToken"], false, "{name}");
        for container in list(spec, "containers") {
            assert_own_version(name, container["image"].as_str().unwrap());
            assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false, "{name}");
            assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true, "{name}");
            let args: Vec<_> = list(container, "args").iter().map(|word| word.as_str().unwrap()).collect();
            assert_accepted(&machine, name, &args);
            for variable in list(container, "env") {
                assert_known(name, variable["name"].as_str().unwrap());
            }
            assert_files_are_mounted(name, spec, container);
        }
    }
}

/// Files that variables name are on volumes of the pod.
fn assert_files_are_mounted(name: &str, spec: &Value, container: &Value) {
    let mounts = list(container, "volumeMounts");
    for variable in list(container, "env") {
        let Some(path) = variable["value"].as_str().filter(|value| value.starts_with('/')) else { continue };
        let mount = mounts.iter().find(|mount| path.starts_with(mount["mountPath"].as_str().unwrap()));
        assert!(mount.is_some(), "{name}: nothing is mounted for {path}");
    }
    for mount in mounts {
        let declared = list(spec, "volumes").iter().any(|volume| volume["name"] == mount["name"]);
        assert!(declared || mount["name"] == "data", "{name}: no volume {}", mount["name"]);
    }
}

// [D3]
#[test]
fn the_charts_coordinators_are_ready_when_they_know_a_leader() {
    let set = of_kind("StatefulSet").remove(0);
    let spec = &set["spec"]["template"]["spec"];
    let container = &list(spec, "containers")[0];

    let probe = &container["readinessProbe"]["httpGet"];
    assert_eq!(
        (&probe["path"], &probe["port"], &probe["scheme"]),
        (&"/readyz".into(), &"https".into(), &"HTTPS".into())
    );
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/healthz");
    let port = &list(container, "ports")[0];
    assert_eq!((&port["name"], &port["containerPort"]), (&"https".into(), &7878.into()));
    assert_eq!(variable(container, "GIGA_LISTEN").as_deref(), Some("0.0.0.0:7878"));
    let own = "$(POD).giga-peers.fleet.svc";
    assert_eq!(variable(container, "GIGA_ADVERTISE"), Some(format!("https://{own}:7878")));
    assert_eq!(set["spec"]["serviceName"], "giga-peers");
    let hosts = variable(container, "GIGA_HOSTS").unwrap();
    assert_eq!(hosts, format!("giga,giga.fleet,giga.fleet.svc,{own},fleet.example"));
}

#[test]
fn the_charts_services_reach_the_ports_of_their_pods() {
    let pods = pods();
    for service in of_kind("Service") {
        let selector = service["spec"]["selector"].as_object().unwrap();
        let is_chosen = |pod: &Value| selector.iter().all(|(key, value)| &pod["metadata"]["labels"][key] == value);
        let (_, pod) = pods.iter().find(|(_, pod)| is_chosen(pod)).unwrap();
        for port in list(&service["spec"], "ports") {
            let containers = list(&pod["spec"], "containers").iter();
            let named =
                containers.flat_map(|container| list(container, "ports")).find(|own| own["name"] == port["targetPort"]);
            assert_eq!(named.map(|own| &own["containerPort"]), Some(&port["port"]), "{}", service["metadata"]["name"]);
        }
    }
}

// [F9]
#[test]
fn the_charts_pools_are_started_and_never_stopped_by_keda() {
    let pools = of_kind("ScaledJob");
    let triggers: Vec<_> = pools.iter().map(|pool| list(&pool["spec"], "triggers")[0].clone()).collect();

    for pool in &pools {
        let spec = &pool["spec"];
        assert_eq!(spec["rollout"]["strategy"], "gradual");
        assert_eq!(spec["scalingStrategy"]["strategy"], "default");
        assert!(spec["maxReplicaCount"].is_i64());
        let pod = &spec["jobTargetRef"]["template"]["spec"];
        assert_eq!((&pod["restartPolicy"], &spec["jobTargetRef"]["backoffLimit"]), (&"Never".into(), &0.into()));
        assert!(pod["terminationGracePeriodSeconds"].as_i64() >= Some(FAREWELL_S));
    }
    let external = &triggers[0];
    let scaler = of_kind("Deployment").remove(0);
    let scaler = &list(&scaler["spec"]["template"]["spec"], "containers")[0];
    let port = &list(scaler, "ports")[0]["containerPort"];
    assert_eq!(external["type"], "external");
    assert_eq!(external["metadata"]["scalerAddress"], format!("giga-scaler.fleet.svc:{port}"));
    assert_eq!(external["metadata"]["pool"], "gpu");
    let polled = &triggers[1];
    assert_eq!(polled["type"], "metrics-api");
    assert_eq!(polled["metadata"]["url"], "https://giga.fleet.svc:7878/api/fleet/scale?pool=linux");
    assert_eq!(
        (&polled["metadata"]["valueLocation"], &polled["metadata"]["targetValue"]),
        (&"wanted".into(), &"1".into())
    );
    let known = of_kind("TriggerAuthentication").remove(0);
    assert_eq!(polled["authenticationRef"]["name"], known["metadata"]["name"]);
}
