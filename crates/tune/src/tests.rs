//! Machines written down as files, and what is said of them.

use std::fs;
use std::path::Path;

use super::apply::{apply_to, sysctl_file};
use super::machine::Access;
use super::*;

/// Files of a machine that has enough of everything for a million.
const PLENTY: &[(&str, &str)] = &[
    (
        "proc/self/limits",
        "Max processes   96365     96365     processes\nMax open files   1024   1048576   files\n",
    ),
    ("proc/self/status", "CapEff:\t000001ffffffffff\n"),
    ("proc/self/cgroup", "0::/\n"),
    ("proc/loadavg", "0.00 0.00 0.00 1/200 1234\n"),
    ("proc/meminfo", "MemTotal: 24000000 kB\nMemAvailable: 23000000 kB\n"),
    ("proc/net/softnet_stat", "00000001 00000000\n"),
    ("proc/sys/fs/file-max", "9223372036854775807\n"),
    ("proc/sys/fs/file-nr", "500\t0\t9223372036854775807\n"),
    ("proc/sys/fs/nr_open", "1073741816\n"),
    ("proc/sys/net/core/somaxconn", "65535\n"),
    ("proc/sys/net/core/netdev_max_backlog", "20000\n"),
    ("proc/sys/net/ipv4/tcp_max_syn_backlog", "65535\n"),
    ("proc/sys/net/ipv4/tcp_mem", "2000000\t3000000\t4000000\n"),
    ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
    ("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n"),
    ("proc/sys/net/ipv4/tcp_max_orphans", "2000000\n"),
    ("proc/sys/net/ipv4/tcp_max_tw_buckets", "2000000\n"),
    ("proc/sys/net/ipv4/tcp_tw_reuse", "2\n"),
    ("proc/sys/net/ipv4/tcp_ehash_entries", "2097152\n"),
    ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
    ("proc/sys/kernel/threads-max", "190000\n"),
    ("proc/sys/kernel/pid_max", "4194304\n"),
    ("proc/sys/vm/max_map_count", "65530\n"),
];

/// The machine with plenty, but for `files`; one without text is not there.
fn machine(files: &[(&str, &str)]) -> Machine {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), files)
}

/// A machine whose settings can be written as long as `root` stands.
fn written(root: &Path, files: &[(&str, &str)]) -> Machine {
    for (path, text) in PLENTY.iter().chain(files) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match text.is_empty() {
            true => fs::remove_file(path).unwrap(),
            false => fs::write(path, text).unwrap(),
        }
    }
    Machine::read(root, 2, &check::keys())
}

/// The check of a million users, without their clients.
fn million(files: &[(&str, &str)]) -> Report {
    Report::of(&machine(files), 1_000_000, Ends::Server)
}

fn row<'a>(report: &'a Report, name: &str) -> &'a Check {
    report.checks.iter().find(|check| check.name == name).unwrap()
}

const DESCRIPTORS: &str = "descriptors of each worker";

#[test]
fn plenty_is_enough_and_the_table_says_so() {
    for ends in [Ends::Server, Ends::Both] {
        let report = Report::of(&machine(&[]), 1_000_000, ends);
        assert!(report.fits(), "{report}");
        let worst = report.checks.iter().map(|check| check.verdict).max();
        assert_eq!(worst, Some(Verdict::Enough), "{report}");
        assert!(report.to_string().contains("fit."), "{report}");
        assert_eq!(report.workers, 2);
    }
    let both = Report::of(&machine(&[]), 1_000_000, Ends::Both);
    assert_eq!((both.listener_threads, both.listener_sources), (2, 84));
    assert!(both.users_max_with_clients < both.users_max);
}

#[test]
fn low_hard_limit_that_stays_asks_for_workers() {
    let limits = "Max processes 96365 96365 processes\nMax open files 20000 20000 files\n";
    let files = [("proc/self/limits", limits), ("proc/self/status", "CapEff:\t0000000000000000\n")];
    let report = million(&files);
    assert!(report.fits());
    assert_eq!(report.workers, 53);
    let check = row(&report, DESCRIPTORS);
    assert_eq!(check.verdict, Verdict::Low);
    assert_eq!(check.command.as_deref(), Some("ulimit -n 524288"));
    assert!(check.hindrance.as_deref().unwrap().contains("LimitNOFILE=524288"), "{check:?}");
    assert!(check.follows.as_deref().unwrap().starts_with("53 workers hold 1,000,000 users"));
    let root = million(&files[..1]);
    assert_eq!(row(&root, DESCRIPTORS).hindrance, None, "who may raise it is not hindered");
}

#[test]
fn short_table_of_the_kernel_is_low_and_set_at_boot() {
    let report = million(&[("proc/sys/net/ipv4/tcp_ehash_entries", "65536\n")]);
    let check = row(&report, "net.ipv4.tcp_ehash_entries");
    assert_eq!(check.verdict, Verdict::Low);
    assert!(check.command.as_deref().unwrap().starts_with("thash_entries=524288 "), "{check:?}");
    assert_eq!(check.follows.as_deref(), Some("lists of 16 sockets"));
    assert_eq!(check.value, None, "--apply leaves it alone");
}

#[test]
fn descriptors_of_all_workers_are_an_end() {
    let report = million(&[("proc/self/limits", "Max open files 256 256 files\n")]);
    assert!(!report.fits());
    // 4,096 workers with room for 150 each: 240 less six times its root.
    assert_eq!(report.users_max, 4_096 * 150);
    let follows = row(&report, DESCRIPTORS).follows.as_deref().unwrap();
    assert!(follows.starts_with("at most 614,400 users"), "{follows}");
}

#[test]
fn files_of_the_machine_count_both_ends() {
    let files = [("proc/sys/fs/file-max", "1500000\n")];
    assert!(million(&files).fits());
    let both = Report::of(&machine(&files), 1_000_000, Ends::Both);
    assert_eq!(row(&both, "fs.file-max").verdict, Verdict::TooLow);
    assert!((749_000..750_000).contains(&both.users_max_with_clients), "{both}");
    let command = row(&both, "fs.file-max").command.as_deref();
    assert_eq!(command, Some("sysctl -w fs.file-max=2200000"));
}

#[test]
fn files_that_others_have_open_are_not_for_users() {
    let files = ("proc/sys/fs/file-max", "2000000\n");
    let busy = million(&[files, ("proc/sys/fs/file-nr", "1500000\t0\t2000000\n")]);
    let follows = row(&busy, "fs.file-max").follows.as_deref().unwrap();
    assert!(follows.ends_with("1,500,000 files are open already"), "{follows}");
    assert!((499_000..500_000).contains(&busy.users_max), "{busy}");
}

#[test]
fn conntrack_bounds_users_only_where_it_tracks() {
    let max = ("proc/sys/net/netfilter/nf_conntrack_max", "262144\n");
    let tracks = million(&[max, ("proc/sys/net/netfilter/nf_conntrack_count", "144\n")]);
    assert!(!tracks.fits());
    assert_eq!(tracks.users_max, 262_000);
    let rests = million(&[max, ("proc/sys/net/netfilter/nf_conntrack_count", "0\n")]);
    assert!(rests.fits());
    assert_eq!(row(&rests, "net.netfilter.nf_conntrack_max").verdict, Verdict::Low);
    assert!(million(&[]).checks.iter().all(|check| !check.name.contains("conntrack")));
}

#[test]
fn read_only_and_foreign_settings_are_no_command_s_to_change() {
    let mut machine = machine(&[("proc/sys/net/core/somaxconn", "128\n")]);
    for (access, word) in [
        (Access::ReadOnly, "read-only"),
        (Access::Foreign, "on the host"),
        (Access::Denied, "sudo"),
    ] {
        machine.settings.get_mut("net.core.somaxconn").unwrap().access = access;
        let report = Report::of(&machine, 1_000_000, Ends::Server);
        let check = row(&report, "net.core.somaxconn");
        assert_eq!(check.verdict, Verdict::Low);
        assert!(check.hindrance.as_deref().unwrap().contains(word), "{check:?}");
        assert!(report.to_string().contains(word), "{report}");
    }
}

#[test]
fn what_is_low_is_set_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        ("proc/sys/net/ipv4/tcp_mem", "100 200 9000000\n"),
        ("proc/sys/fs/file-max", "1000\n"),
        ("proc/sys/net/core/somaxconn", "128\n"),
    ];
    let mut machine = written(dir.path(), &files);
    machine.settings.get_mut("net.core.somaxconn").unwrap().access = Access::ReadOnly;
    let changes = apply_to(&machine, &Report::of(&machine, 1_000_000, Ends::Server));
    let told: Vec<_> = changes.iter().map(|c| (c.key, &*c.from, &*c.to)).collect();
    assert_eq!(
        told,
        [
            ("fs.file-max", "1000", "1100000"),
            ("net.core.somaxconn", "128", "65535"),
            ("net.ipv4.tcp_mem", "100 200 9000000", "750000 1000000 9000000"),
        ]
    );
    let refused: Vec<_> = changes.iter().filter(|change| change.error.is_some()).collect();
    assert!(refused.len() == 1 && refused[0].key == "net.core.somaxconn", "{changes:?}");
    let after = Machine::read(dir.path(), 2, &check::keys());
    assert_eq!(after.values("fs.file-max"), Some(&[1_100_000][..]));
    let report = Report::of(&after, 1_000_000, Ends::Server);
    let low: Vec<_> = report.with(Verdict::Low).map(|check| check.name).collect();
    assert_eq!(low, ["net.core.somaxconn"]);
}

#[test]
fn setting_that_a_container_hides_is_not_checked() {
    let report = million(&[("proc/sys/net/ipv4/tcp_mem", "")]);
    assert!(report.fits());
    let check = row(&report, "net.ipv4.tcp_mem");
    assert_eq!(check.verdict, Verdict::NotShown);
    assert!(report.to_string().contains("on the host"), "{report}");
}

#[test]
fn little_memory_says_how_many_fit() {
    let meminfo = ("proc/meminfo", "MemTotal: 2000000 kB\nMemAvailable: 1953125 kB\n");
    let report = million(&[meminfo]);
    assert!(!report.fits());
    let demand = Demand::of(&machine(&[meminfo]), report.users_max, Ends::Server);
    assert!(demand.memory().need() <= 2_000_000_000);
    assert!(2_000_000_000 - demand.memory().need() < 5_000, "{}", report.users_max);
    assert!(report.to_string().contains("at most"), "{report}");
}

#[test]
fn group_with_less_memory_and_threads_counts() {
    let report = million(&[
        ("sys/fs/cgroup/memory.max", "1000000000\n"),
        ("sys/fs/cgroup/memory.current", "0\n"),
        ("sys/fs/cgroup/pids.max", "50\n"),
        ("sys/fs/cgroup/pids.current", "10\n"),
    ]);
    assert_eq!(row(&report, "memory").verdict, Verdict::Enough);
    assert_eq!(row(&report, "memory of the group").verdict, Verdict::TooLow);
    let threads = row(&report, "threads of the group");
    assert_eq!((threads.verdict, threads.here[0]), (Verdict::TooLow, 40));
    assert!(threads.hindrance.as_deref().unwrap().contains("TasksMax="));
}

#[test]
fn ports_bound_a_crowd_and_no_server() {
    let files = [("proc/sys/net/ipv4/ip_local_port_range", "40000\t40999\n")];
    assert!(million(&files).fits());
    let both = Report::of(&machine(&files), 1_000_000, Ends::Both);
    assert_eq!(row(&both, check::PORTS).verdict, Verdict::TooLow);
    assert_eq!(both.users_max_with_clients, 1_000);
    assert!(Report::of(&machine(&files), 900, Ends::Both).fits());
}

#[test]
fn machine_that_shows_nothing_is_checked_by_nothing() {
    let report =
        Report::of(&Machine::read(Path::new("/nowhere"), 1, &check::keys()), 7, Ends::Both);
    assert!(report.fits());
    assert!(!report.to_string().is_empty());
}

#[test]
fn most_extreme_numbers_of_users_are_checked() {
    for users in [1, u32::MAX] {
        for ends in [Ends::Server, Ends::Both] {
            let report = Report::of(&machine(&[]), users, ends);
            assert_eq!(report.fits(), users == 1, "{report}");
        }
    }
}

#[test]
fn file_of_settings_for_few_users_lowers_no_default() {
    let file = sysctl_file(10, Ends::Server);
    for line in ["fs.nr_open = 1048576", "net.core.somaxconn = 4096"] {
        assert!(file.contains(line), "{line} in {file}");
    }
}

#[test]
fn file_of_settings_is_enough_wherever_it_is_used() {
    for (users, ends) in [(1_000_000, Ends::Server), (50_000, Ends::Both), (3_000_000, Ends::Both)]
    {
        let file = sysctl_file(users, ends);
        let mut files = vec![("proc/sys/net/netfilter/nf_conntrack_count".to_owned(), "9".into())];
        for line in file.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (key, value) = line.trim_start_matches('-').split_once(" = ").unwrap();
            files.push((format!("proc/sys/{}", key.replace('.', "/")), value.to_owned()));
        }
        let files: Vec<_> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        let report = Report::of(&machine(&files), users, ends);
        let settings = report.checks.iter().filter(|check| file.contains(check.name));
        let low: Vec<_> = settings.filter(|check| check.verdict != Verdict::Enough).collect();
        assert!(low.is_empty(), "{low:?}");
        let lines = if ends == Ends::Both { 9 } else { 8 };
        assert_eq!(file.matches(" = ").count(), lines);
    }
}
