%% Tries ketama and the port program against keys that libketama mapped. Takes three arguments after
%% `-extra': the program, the list of servers, and a table of keys whose fourth column is the
%% server. The test suite of Encke runs it; it exits with 0 when all is well, and prints what is not.
-module(ketama_test).

-behaviour(supervisor).

-export([main/0, init/1]).

%% Milliseconds: far beyond what a busy machine needs.
-define(DEADLINE, 30_000).

main() ->
    [Program, Servers, Table] = init:get_plain_arguments(),
    Keys = read_keys(Table),
    Tests = [
        {"the port without a module", fun() -> plain_port(Program, Servers, Keys) end},
        {"getserver, one at a time", fun() -> one_at_a_time(Program, Servers, Keys) end},
        {"getserver, many at once", fun() -> many_at_once(Program, Servers, Keys) end},
        {"bad keys", fun() -> bad_keys(Program, Servers) end},
        {"bad starts", fun() -> bad_starts(Program, Servers) end},
        {"the program is killed", fun() -> program_is_killed(Program, Servers, Keys) end},
        {"the process is killed", fun() -> process_is_killed(Program, Servers, Keys) end},
        {"the end of the supervisor", fun() -> supervisor_ends(Program, Servers) end}
    ],
    Failed = [Name || {Name, Test} <- Tests, not passes(Name, Test)],
    halt(min(length(Failed), 1)).

%% Each test has a process of its own, which takes with it what it is linked to.
passes(Name, Test) ->
    {Pid, Monitor} = spawn_monitor(fun() -> Test(), exit(passed) end),
    receive
        {'DOWN', Monitor, process, Pid, passed} ->
            io:format("passed: ~s~n", [Name]),
            wait(fun() -> whereis(ketama) =:= undefined end),
            true;
        {'DOWN', Monitor, process, Pid, Reason} ->
            io:format("FAILED: ~s: ~p~n", [Name, Reason]),
            false
    end.

read_keys(Table) ->
    {ok, Bytes} = file:read_file(Table),
    Lines = binary:split(Bytes, <<"\n">>, [global, trim]),
    Rows = [binary:split(Line, <<"\t">>, [global]) || Line <- Lines],
    [{Key, Server} || [Key, _Hash, _Point, Server] <- Rows].

%% As it stands in every book on ports.
plain_port(Program, Servers, Keys) ->
    Port = open_port({spawn, Program ++ " ketama " ++ Servers}, [binary, {packet, 1}, exit_status]),
    [port_command(Port, Key) || {Key, _} <- Keys],
    [receive {Port, {data, Server}} -> Server after ?DEADLINE -> error(Key) end
     || {Key, Server} <- Keys],
    OsPid = os_pid(Port),
    true = port_close(Port),
    wait(fun() -> not is_alive(OsPid) end).

one_at_a_time(Program, Servers, Keys) ->
    {ok, Pid} = ketama:start_link(Servers, Program),
    {error, {already_started, Pid}} = ketama:start_link(Servers, Program),
    [Server = ketama:getserver(Key) || {Key, Server} <- Keys],
    Server = ketama:getserver("user:1"),
    Server = ketama:getserver([<<"user">>, $:, "1"]),
    gen_server:stop(Pid).

many_at_once(Program, Servers, Keys) ->
    {ok, Pid} = ketama:start_link(unicode:characters_to_binary(Servers), Program),
    Ask = fun() -> [Server = ketama:getserver(Key) || {Key, Server} <- Keys], exit(passed) end,
    Monitors = [element(2, spawn_monitor(Ask)) || _ <- lists:seq(1, 50)],
    [receive {'DOWN', Monitor, _, _, Reason} -> passed = Reason end || Monitor <- Monitors],
    gen_server:stop(Pid).

bad_keys(Program, Servers) ->
    {ok, Pid} = ketama:start_link(Servers, Program),
    <<_, _/binary>> = ketama:getserver(""),
    <<_, _/binary>> = ketama:getserver(binary:copy(<<0>>, 255)),
    [{'EXIT', {badarg, _}} = (catch ketama:getserver(Key))
     || Key <- [binary:copy(<<"k">>, 256), user, [16#20ac]]],
    <<_, _/binary>> = ketama:getserver("and it still answers"),
    gen_server:stop(Pid).

bad_starts(Program, Servers) ->
    process_flag(trap_exit, true),
    {error, {program_not_found, "no-such-program"}} = ketama:start_link(Servers, "no-such-program"),
    %% The program itself is no list.
    {error, {program_ended, _}} = ketama:start_link(Program, Program),
    {error, {program_ended, _}} = ketama:start_link(Servers ++ ".none", Program),
    {'EXIT', {noproc, _}} = (catch ketama:getserver("user:1")).

program_is_killed(Program, Servers, Keys) ->
    {ok, Supervisor} = supervisor:start_link(?MODULE, {Servers, Program}),
    Before = whereis(ketama),
    OsPid = os_pid(port_of(Before)),
    "" = os:cmd("kill -s KILL " ++ integer_to_list(OsPid)),
    wait(fun() -> is_pid(whereis(ketama)) andalso whereis(ketama) =/= Before end),
    [Server = ketama:getserver(Key) || {Key, Server} <- Keys],
    stop(Supervisor).

process_is_killed(Program, Servers, Keys) ->
    {ok, Supervisor} = supervisor:start_link(?MODULE, {Servers, Program}),
    Before = whereis(ketama),
    OsPid = os_pid(port_of(Before)),
    exit(Before, kill),
    wait(fun() -> not is_alive(OsPid) end),
    wait(fun() -> is_pid(whereis(ketama)) andalso whereis(ketama) =/= Before end),
    [Server = ketama:getserver(Key) || {Key, Server} <- Keys],
    stop(Supervisor).

supervisor_ends(Program, Servers) ->
    {ok, Supervisor} = supervisor:start_link(?MODULE, {Servers, Program}),
    OsPid = os_pid(port_of(whereis(ketama))),
    stop(Supervisor),
    wait(fun() -> not is_alive(OsPid) end).

init(Arguments) ->
    {ok, {#{}, [ketama:child_spec(Arguments)]}}.

stop(Supervisor) ->
    unlink(Supervisor),
    Monitor = monitor(process, Supervisor),
    exit(Supervisor, shutdown),
    receive {'DOWN', Monitor, process, Supervisor, _} -> ok end.

port_of(Pid) ->
    {links, Links} = process_info(Pid, links),
    [Port] = [Link || Link <- Links, is_port(Link)],
    Port.

os_pid(Port) ->
    {os_pid, OsPid} = erlang:port_info(Port, os_pid),
    OsPid.

is_alive(OsPid) ->
    filelib:is_dir("/proc/" ++ integer_to_list(OsPid)).

wait(Ready) ->
    wait(Ready, erlang:monotonic_time(millisecond) + ?DEADLINE).

wait(Ready, Deadline) ->
    case Ready() of
        true ->
            ok;
        false ->
            true = erlang:monotonic_time(millisecond) < Deadline,
            %% Leaves the core to what is waited for.
            receive after 1 -> ok end,
            wait(Ready, Deadline)
    end.
