//! This tries the package of Debian in a fresh root. It is installed by dpkg, its unit is read by
//! systemd's own tools, and its service is started as the unit says. An event is heard, in three
//! commands.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};

use super::super::{Wanted, archive, done, output};
use super::server::{DEADLINE, Process, chroot, wait_online};
use super::{mount_kernel, root, run_inside};

const UNIT: &str = "usr/lib/systemd/system/encke.service";

/// The exposure of the unit as `systemd-analyze security` counts it, times ten: 100 is no defence.
const EXPOSURE_MAX: u32 = 20;

pub(super) fn run(wanted: &Wanted, package: &Path, place: &Path) -> anyhow::Result<()> {
    let depends = output(Command::new("dpkg-deb").arg("--field").arg(package).arg("Depends"))?;
    let root = place.join("root");
    root::make(&root, &depends)?;
    archive::copy(package, &root.join("encke.deb"), 0o644)?;
    println!("packages: a fresh root for {} at {}", wanted.version, root.display());
    run_inside(&[Path::new("deb"), &root, package])
}

pub(super) fn inside(root: &Path, package: &Path) -> anyhow::Result<()> {
    mount_kernel(root)?;
    ensure!(!root.join("usr/bin/encke").exists(), "the root is not fresh");
    let begin = Instant::now();
    done(&mut chroot(root, "0:0", &["dpkg", "--install", "/encke.deb"])?)?;
    // What follows is systemd's part, which no container has: it starts what was installed.
    let service = Service::start(root)?;
    let mut listener = Process::heard(&mut chroot(root, "0:0", &["encke", "listen", "bob"])?)?;
    wait_online("bob")?;
    done(&mut chroot(root, "0:0", &["encke", "send", "bob", "hello"])?)?;
    let heard = listener.line_with("hello")?;
    let took = begin.elapsed();
    println!("packages: dpkg --install encke.deb; encke listen bob; encke send bob hello");
    println!("packages: the first event was heard after 3 commands, {:.1} s", took.as_secs_f64());
    println!("packages: {heard}");
    drop(listener);
    check_upgrade(root)?;
    ensure!(service.process.user()? != 0, "the service runs as root");
    ensure!(root.join("var/lib/encke/data.mdb").exists(), "the graph is not in /var/lib/encke");
    check_unit(root)?;
    service.reload_and_stop()?;
    check_installed(root, package)?;
    remove(root)
}

/// The service as its unit has it started.
struct Service {
    process: Process,
    /// systemd's end of `Type=notify`.
    manager: UnixDatagram,
}

impl Service {
    fn start(root: &Path) -> anyhow::Result<Service> {
        let unit = fs::read_to_string(root.join(UNIT)).context("no unit was installed")?;
        ensure!(value(&unit, "Type")? == "notify", "the unit waits for another sign");
        let (user, group) = (value(&unit, "User")?, value(&unit, "Group")?);
        let state = format!("/var/lib/{}", value(&unit, "StateDirectory")?);
        let mode = value(&unit, "StateDirectoryMode")?;
        let folder = ["install", "-d", "-o", user, "-g", group, "-m", mode, &state];
        done(&mut chroot(root, "0:0", &folder)?)?;
        // By a short name: the path of a socket has 108 bytes at most.
        std::env::set_current_dir(root.join("run"))?;
        let manager = UnixDatagram::bind("notify").context("cannot listen in /run")?;
        manager.set_read_timeout(Some(DEADLINE))?;
        done(Command::new("chmod").args(["0777", "notify"]))?;
        let words: Vec<&str> = value(&unit, "ExecStart")?.split(' ').collect();
        let mut command = chroot(root, &format!("{user}:{group}"), &words)?;
        let process = Process::spawn(command.env("NOTIFY_SOCKET", "/run/notify"))?;
        let service = Service { process, manager };
        service.told("READY=1")?;
        Ok(service)
    }

    /// Waits for what the service says next.
    fn told(&self, state: &str) -> anyhow::Result<()> {
        let mut bytes = [0; 4096];
        let len = self.manager.recv(&mut bytes).with_context(|| format!("no {state}"))?;
        let told = String::from_utf8_lossy(&bytes[..len]);
        ensure!(told.lines().next() == Some(state), "{state} was to come, not {told}");
        Ok(())
    }

    fn reload_and_stop(self) -> anyhow::Result<()> {
        self.process.signal("HUP")?;
        self.told("RELOADING=1")?;
        self.told("READY=1")?;
        self.process.signal("TERM")?;
        self.told("STOPPING=1")?;
        self.process.ended()
    }
}

/// What a newer package has systemd do: reload, which closes no stream, and restart what cannot be
/// taken over.
fn check_upgrade(root: &Path) -> anyhow::Result<()> {
    archive::make_folder(&root.join("run/systemd/system"), 0o755)?;
    let stub = "#!/bin/sh\necho \"${0##*/} $*\" >> /told\n[ ! -e \"/refuses-$1\" ]\n";
    for name in ["systemctl", "deb-systemd-invoke", "deb-systemd-helper"] {
        archive::write(&root.join("stubs").join(name), stub, 0o755)?;
    }
    let told = || -> anyhow::Result<Vec<String>> {
        let path = "PATH=/stubs:/usr/sbin:/usr/bin:/sbin:/bin";
        let script = "/var/lib/dpkg/info/encke.postinst";
        done(&mut chroot(root, "0:0", &["env", path, script, "configure", "0.0.1"])?)?;
        let told = fs::read_to_string(root.join("told"))?;
        fs::remove_file(root.join("told"))?;
        let actions = told.lines().filter(|line| line.contains("reload") || line.contains("start"));
        Ok(actions.filter(|line| !line.contains("daemon")).map(str::to_owned).collect())
    };
    let reload = "systemctl reload encke.service";
    let restart = "deb-systemd-invoke restart encke.service";
    let taken = told()?;
    ensure!(taken == [reload], "a newer package: {taken:?}");
    archive::write(&root.join("refuses-reload"), "", 0o644)?;
    let refused = told()?;
    ensure!(refused == [reload, restart], "one that cannot take over: {refused:?}");
    println!("packages: a newer package reloads the service, and restarts what refuses it");
    fs::remove_dir_all(root.join("run/systemd"))?;
    Ok(())
}

/// The one value of `key` in a unit.
fn value<'u>(unit: &'u str, key: &str) -> anyhow::Result<&'u str> {
    let lines = unit.lines();
    let mut values = lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    values.next().with_context(|| format!("the unit has no {key}="))
}

/// What systemd's own tools say of the unit.
fn check_unit(root: &Path) -> anyhow::Result<()> {
    // Units that every machine with systemd has, which ours names.
    let here = Path::new("/usr/lib/systemd/system");
    for entry in fs::read_dir(here).context("systemd is missing")? {
        let entry = entry?;
        let to = root.join("usr/lib/systemd/system").join(entry.file_name());
        if entry.path().is_file() && !to.exists() {
            archive::copy(&entry.path(), &to, 0o644)?;
        }
    }
    let mut verify = Command::new("systemd-analyze");
    verify.arg("verify").arg(format!("--root={}", root.display()));
    let told = verify.arg("encke.service").output().context("systemd-analyze does not start")?;
    let told = [told.stdout, told.stderr].concat();
    let told = String::from_utf8_lossy(&told);
    // Of others' units it may have much to say.
    let own: Vec<&str> = told.lines().filter(|line| line.contains("encke")).collect();
    ensure!(own.is_empty(), "systemd-analyze verify: {own:?}");
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=true", "--no-pager"]);
    security.arg(format!("--threshold={EXPOSURE_MAX}"));
    let told = output(security.arg(root.join(UNIT)))?;
    let line = told.lines().last().unwrap_or_default();
    println!("packages: systemd-analyze verify: nothing; security: {line}");
    Ok(())
}

/// What came is what was packed, by dpkg's own sums, and what a user looks for is there.
fn check_installed(root: &Path, package: &Path) -> anyhow::Result<()> {
    let verify = output(&mut chroot(root, "0:0", &["dpkg", "--verify", "encke"])?)?;
    ensure!(verify.is_empty(), "dpkg --verify: {verify}");
    let conffiles = output(&mut chroot(
        root,
        "0:0",
        &["dpkg-query", "--show", "--showformat=${Conffiles}", "encke"],
    )?)?;
    ensure!(conffiles.contains("/etc/encke/encke.toml"), "no conffile: {conffiles}");
    let list = output(Command::new("dpkg-deb").arg("--contents").arg(package))?;
    ensure!(list.lines().all(|line| line.contains(" root/root ")), "all is root's: {list}");
    for name in ["usr/lib/sysctl.d/60-encke.conf", "usr/share/doc/encke/copyright"] {
        ensure!(root.join(name).is_file(), "{name} is missing");
    }
    Ok(())
}

/// What leaves with the package, and what stays: the data.
fn remove(root: &Path) -> anyhow::Result<()> {
    done(&mut chroot(root, "0:0", &["dpkg", "--purge", "encke"])?)?;
    for name in ["usr/bin/encke", "etc/encke", UNIT] {
        ensure!(!root.join(name).exists(), "{name} is left behind");
    }
    let links =
        output(Command::new("find").arg(root.join("etc/systemd")).args(["-name", "encke*"]));
    let links = links.unwrap_or_default();
    ensure!(links.is_empty(), "left behind: {links}");
    ensure!(root.join("var/lib/encke/data.mdb").exists(), "the data went with the package");
    Ok(())
}
