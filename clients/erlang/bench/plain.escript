#!/usr/bin/env escript
%%! -name plain@127.0.0.1 -hidden
%% The least that Erlang could do in Encke's place: a process with a table of who is logged in, as
%% the original's router was, and nothing more. `load.escript callers' starts it, and it ends with
%% its standard input.
-mode(compile).

main([]) ->
    register(router, self()),
    spawn_link(fun() -> io:get_line(""), halt(0) end),
    io:format("ready~n"),
    router(ets:new(logins, [bag, private])).

router(Table) ->
    receive
        {'$gen_call', From, {login, Id, Pid}} ->
            true = ets:insert(Table, {Id, Pid}),
            gen_server:reply(From, ok);
        {'$gen_call', From, {send, Id, Payload}} ->
            Pids = [Pid || {_, Pid} <- ets:lookup(Table, Id)],
            [Pid ! {router_msg, Payload} || Pid <- Pids],
            gen_server:reply(From, {ok, length(Pids)})
    end,
    router(Table).
