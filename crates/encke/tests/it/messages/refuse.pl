# refuse.pl WORD CALLS COMMAND...: runs COMMAND, whose CALLS the kernel refuses with the error WORD
# (`EIO`), or ends it at the first of them (`kill`). CALLS are joined by commas, each the name of a
# system call, and what an argument of it must be: `kill:1=9` is a kill(2) with SIGKILL.
#
# It is a filter of seccomp(2), which everybody may set who gives up new privileges. A C library may
# make random bytes itself, of a key that it asks for with the flags 0: refuse that as well.

use strict;
use warnings;
use POSIX ();

# The word for the architecture (linux/audit.h), prctl(2), and the calls that cases name.
my %machines = (
    x86_64 => [0xc000003e, 157, {
        flock => 73, getrandom => 318, kill => 62, pidfd_send_signal => 424, prlimit64 => 302,
        readlink => 89, readlinkat => 267, rename => 82, renameat => 264, rt_sigaction => 13,
        rt_sigprocmask => 14,
    }],
    aarch64 => [0xc00000b7, 167, {
        flock => 32, getrandom => 278, kill => 129, pidfd_send_signal => 424, prlimit64 => 261,
        readlink => undef, readlinkat => 78, rename => undef, renameat => 38, rt_sigaction => 134,
        rt_sigprocmask => 135,
    }],
);

my ($word, $calls, @command) = @ARGV;
my $machine = $machines{(POSIX::uname())[4]} or die "no numbers of calls are known here\n";
my ($architecture, $prctl, $numbers) = @$machine;
# SECCOMP_RET_KILL_PROCESS, or SECCOMP_RET_ERRNO with the error.
my $end = $word eq 'kill' ? 0x80000000 : 0x00050000 | POSIX->can($word)->();

# Instructions of bpf(4): load a word of `struct seccomp_data`, skip so many unless it is equal,
# and return.
sub load { pack 'SCCL', 0x20, 0, 0, $_[0] }
sub skip_unless { pack 'SCCL', 0x15, 0, $_[1], $_[0] }
sub answer { pack 'SCCL', 0x06, 0, 0, $_[0] }

my @filter;
for (split /,/, $calls) {
    my ($name, $argument, $value) = /^(\w+)(?::(\d)=(\d+))?$/ or die "what is $_?\n";
    exists $numbers->{$name} or die "the number of $name is not known\n";
    # There is no such call on this machine.
    my $number = $numbers->{$name} // next;
    my @test = defined $argument ? (load(16 + 8 * $argument), skip_unless($value, 1)) : ();
    push @filter, load(0), skip_unless($number, @test + 1), @test, answer($end);
}
# Calls of another architecture are let through (SECCOMP_RET_ALLOW).
unshift @filter, load(4), skip_unless($architecture, scalar @filter);
push @filter, answer(0x7fff0000);
my $code = join '', @filter;
my $program = pack 'S x![P] P', scalar @filter, $code;
# PR_SET_NO_NEW_PRIVS, and PR_SET_SECCOMP with SECCOMP_MODE_FILTER.
syscall($prctl, 38, 1, 0, 0, 0) == 0 or die "cannot give up new privileges: $!\n";
syscall($prctl, 22, 2, $program) == 0 or die "cannot set a filter: $!\n";
exec { $command[0] } @command or die "$command[0]: $!\n";
