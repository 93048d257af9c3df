#!/usr/bin/env escript
%%! -name bench@127.0.0.1 +P 4000000 -hidden
%% What Encke takes from one Erlang node.
%%
%%   encke serve --erlang-node encke@127.0.0.1 --erlang-cookie-file ~/.erlang.cookie
%%   escript bench/load.escript casts 1000000
%%   escript bench/load.escript heard 1000000
%%   escript bench/load.escript calls 200000
%%   escript bench/load.escript callers 50000
%%   escript bench/load.escript processes 1000000
%%
%% Times end when Encke has done all: the last thing that each sender does is a call. An event that
%% is lost shows in the sum of the counts, or in what the processes have heard.
-mode(compile).

-define(ENCKE, 'encke@127.0.0.1').
%% What bench/plain.escript is.
-define(PLAIN, 'plain@127.0.0.1').
-define(ANY, {any, ?ENCKE}).
-define(ROUTER, {router, ?ENCKE}).

main([What, Count]) ->
    pong = net_adm:ping(?ENCKE),
    run(What, list_to_integer(Count));
main(_) ->
    io:format("usage: load.escript casts|heard|calls|callers|processes COUNT~n"),
    halt(2).

%% Events for ids that nobody has, by 10 processes.
run("casts", Count) ->
    Before = figure("events"),
    report("casts", Count, timed(10, Count, fun(N) -> ?ANY ! {N, <<"Hello">>} end)),
    0 = Count + 10 - (figure("events") - Before),
    io:format("none lost~n");
%% Events for 100 processes, which count what they hear.
run("heard", Count) ->
    Me = self(),
    Ears = [spawn_link(fun() -> hear(Me, 0) end) || _ <- lists:seq(1, 100)],
    [ok = gen_server:call(?ROUTER, {login, N, Ear}) || {N, Ear} <- lists:zip(lists:seq(0, 99), Ears)],
    report("casts heard", Count, timed(10, Count, fun(N) -> ?ANY ! {N rem 100, <<"Hello">>} end)),
    Heard = wait_heard(Ears, Count),
    io:format("heard ~p of ~p~n", [Heard, Count]);
%% Calls by 100 processes, each of which waits for its answer.
run("calls", Count) ->
    Call = fun(N) -> {ok, 0} = gen_server:call(?ROUTER, {send, N, <<"Hello">>}, infinity) end,
    report("calls", Count, timed(100, Count, Call));
%% Calls by 1, 10 and 100 processes, of Encke and of a router in Erlang on a node of its own, in
%% turn: medians of five rounds, and their spread. Every call is of an id that one process has.
run("callers", Count) ->
    Plain = start_plain(),
    [ok = gen_server:call({router, Node}, {login, ear, spawn_link(fun ignore/0)})
     || Node <- [?ENCKE, ?PLAIN]],
    [compare(Callers, Count div 5) || Callers <- [1, 10, 100]],
    port_close(Plain);
%% So many processes logged in, each under an id of its own.
run("processes", Count) ->
    Before = figure("resident_anonymous_bytes"),
    Pids = [spawn(fun() -> erlang:hibernate(timer, sleep, [infinity]) end) || _ <- lists:seq(1, Count)],
    Time = timed(fun() -> login(1, Pids) end),
    Count = figure("processes"),
    report("log-ins", Count, Time),
    After = figure("resident_anonymous_bytes"),
    io:format("~.1f bytes of Encke's memory for each~n", [(After - Before) / Count]).

compare(Callers, Count) ->
    Rates = [{rate(?ENCKE, Callers, Count), rate(?PLAIN, Callers, Count)} || _ <- lists:seq(1, 5)],
    {Ours, Theirs} = lists:unzip(Rates),
    Ratios = [Our / Their || {Our, Their} <- Rates],
    io:format("~p callers: ~s a second, plain Erlang ~s, ratio ~s~n",
              [Callers, spread(Ours, "~.1f"), spread(Theirs, "~.1f"), spread(Ratios, "~.2f")]).

rate(Node, Callers, Count) ->
    Call = fun(_) -> {ok, 1} = gen_server:call({router, Node}, {send, ear, <<"Hello">>}) end,
    Start = erlang:monotonic_time(microsecond),
    together(Callers, fun(_) -> repeat(Count div Callers, 0, Call) end),
    Count * 1.0e6 / (erlang:monotonic_time(microsecond) - Start).

spread(Figures, Format) ->
    Sorted = lists:sort(Figures),
    [Least, Median, Most] = [lists:nth(N, Sorted) || N <- [1, (length(Sorted) + 1) div 2,
                                                          length(Sorted)]],
    io_lib:format(Format ++ " (" ++ Format ++ " to " ++ Format ++ ")", [Median, Least, Most]).

ignore() ->
    receive {router_msg, _} -> ignore() end.

start_plain() ->
    Port = open_port({spawn_executable, os:find_executable("escript")},
                     [{args, [filename:join(filename:dirname(escript:script_name()),
                                            "plain.escript")]}, {line, 80}]),
    receive {Port, {data, {eol, "ready"}}} -> ok after 10000 -> halt(1) end,
    pong = net_adm:ping(?PLAIN),
    Port.

%% In portions: no more is under way than Encke's queue holds.
login(_, []) ->
    {ok, _} = gen_server:call(?ROUTER, {send, none, sync}, infinity);
login(N, [Pid | Pids]) ->
    gen_server:cast(?ROUTER, {login, N, Pid}),
    N rem 50000 =/= 0 orelse gen_server:call(?ROUTER, {send, none, sync}, infinity),
    login(N + 1, Pids).

hear(Me, Count) ->
    receive
        {router_msg, _} -> hear(Me, Count + 1);
        {tell, Me} -> Me ! {self(), Count}, hear(Me, Count)
    end.

wait_heard(Ears, Count) ->
    wait_heard(Ears, Count, erlang:monotonic_time(second) + 30).

wait_heard(Ears, Count, Deadline) ->
    [Ear ! {tell, self()} || Ear <- Ears],
    Heard = lists:sum([receive {Ear, N} -> N end || Ear <- Ears]),
    case Heard >= Count orelse erlang:monotonic_time(second) > Deadline of
        true -> Heard;
        false -> timer:sleep(50), wait_heard(Ears, Count, Deadline)
    end.

%% The time until `Processes' have done `Act' `Count' times together and Encke has done it.
timed(Processes, Count, Act) ->
    Each = Count div Processes,
    timed(fun() ->
        together(Processes, fun(Process) ->
            repeat(Each, Process * Each, Act),
            {ok, _} = gen_server:call(?ROUTER, {send, none, sync}, infinity)
        end)
    end).

%% Until so many processes have done `Act'.
together(Processes, Act) ->
    Me = self(),
    Pids = [spawn_link(fun() -> Act(Process), Me ! {done, self()} end)
            || Process <- lists:seq(1, Processes)],
    [receive {done, Pid} -> ok end || Pid <- Pids].

%% Microseconds that `Do' takes, and seconds of Encke's processor.
timed(Do) ->
    Processor = figure("cpu_seconds"),
    Start = erlang:monotonic_time(microsecond),
    Do(),
    {erlang:monotonic_time(microsecond) - Start, figure("cpu_seconds") - Processor}.

repeat(0, _, _) -> ok;
repeat(Left, N, Act) -> Act(N), repeat(Left - 1, N + 1, Act).

report(What, Count, {Microseconds, Processor}) ->
    Rate = Count * 1000000 div Microseconds,
    io:format("~p ~s in ~.2f s: ~p a second, ~.2f us of Encke's processor for each~n",
              [Count, What, Microseconds / 1.0e6, Rate, Processor * 1.0e6 / Count]).

%% A number out of Encke's /stats; ENCKE_API is where its API is, and ENCKE_KEY a key with the scope
%% `read', where one is needed.
figure(Name) ->
    [Host, Port] = string:split(os:getenv("ENCKE_API", "127.0.0.1:8001"), ":"),
    {ok, Socket} = gen_tcp:connect(Host, list_to_integer(Port), [binary, {active, false}]),
    Key = case os:getenv("ENCKE_KEY", "") of
        "" -> "";
        Text -> ["Authorization: Bearer ", Text, "\r\n"]
    end,
    ok = gen_tcp:send(Socket, ["GET /stats HTTP/1.1\r\nHost: ", Host, "\r\n", Key,
                               "Connection: close\r\n\r\n"]),
    Stats = read(Socket, <<>>),
    <<"HTTP/1.1 200", _/binary>> = Stats,
    Scope = case lists:member(Name, ["events", "processes"]) of
        true -> hd(tl(binary:split(Stats, <<"\"erlang\":{">>)));
        false -> Stats
    end,
    {match, [Digits]} = re:run(Scope, ["\"", Name, "\":([0-9.]+)"], [{capture, [1], list}]),
    case string:to_float(Digits) of
        {error, no_float} -> list_to_integer(Digits);
        {Figure, _} -> Figure
    end.

read(Socket, Read) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, More} -> read(Socket, <<Read/binary, More/binary>>);
        {error, closed} -> Read
    end.
