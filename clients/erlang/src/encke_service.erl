%% @private
%% A process of this node that stands for one of Encke's, so that it has a place among those that a
%% supervisor starts, as the original's own had: it waits for Encke when it starts, and ends when
%% Encke does, or the connection.
-module(encke_service).

-behaviour(gen_server).

-export([start_link/1, stop/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([start_error/0]).

-type service() :: router | subsmanager.
-type start_error() :: {already_started, pid()} | no_encke.

-define(PATIENCE_MS, 30_000).
-define(LOOK_MS, 50).

-spec start_link(service()) -> {ok, pid()} | {error, start_error()}.
start_link(Service) ->
    gen_server:start_link({local, name(Service)}, ?MODULE, Service, []).

-spec stop(service()) -> ok.
stop(Service) ->
    gen_server:stop(name(Service)).

name(router) -> encke_router;
name(subsmanager) -> encke_subsmanager.

-spec init(service()) -> {ok, reference()} | {stop, no_encke}.
init(Service) ->
    await(Service, ?PATIENCE_MS div ?LOOK_MS).

await(Service, Looks) ->
    case global:whereis_name(Service) of
        Pid when is_pid(Pid) ->
            {ok, monitor(process, Pid)};
        undefined when Looks > 0 ->
            timer:sleep(?LOOK_MS),
            await(Service, Looks - 1);
        undefined ->
            {stop, no_encke}
    end.

-spec handle_call(term(), gen_server:from(), reference()) ->
    {reply, {error, unknown}, reference()}.
handle_call(_Request, _From, Monitor) ->
    {reply, {error, unknown}, Monitor}.

-spec handle_cast(term(), reference()) -> {noreply, reference()}.
handle_cast(_Request, Monitor) ->
    {noreply, Monitor}.

-spec handle_info(term(), reference()) -> {noreply, reference()} | {stop, term(), reference()}.
handle_info({'DOWN', Monitor, process, _Pid, Reason}, Monitor) ->
    {stop, {encke_is_gone, Reason}, Monitor};
handle_info(_Other, Monitor) ->
    {noreply, Monitor}.
