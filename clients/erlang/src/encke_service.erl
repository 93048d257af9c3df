%% @private
%% A process of this node that stands for one of Encke's, so that it has a place among those that a
%% supervisor starts, as the original's own had: it waits for Encke when it starts, and ends when
%% Encke does, or the connection.
-module(encke_service).

-behaviour(gen_server).

-export([start_link/1, stop/1, await/1]).
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

%% Waits until both of Encke's are known at this node.
-spec await(timeout()) -> ok | {error, no_encke}.
await(Timeout) ->
    Until = until(Timeout),
    case look(router, Until) of
        {ok, _} ->
            case look(subsmanager, Until) of
                {ok, _} -> ok;
                error -> {error, no_encke}
            end;
        error ->
            {error, no_encke}
    end.

name(router) -> encke_router;
name(subsmanager) -> encke_subsmanager.

-spec init(service()) -> {ok, reference()} | {stop, no_encke}.
init(Service) ->
    case look(Service, until(?PATIENCE_MS)) of
        {ok, Pid} -> {ok, monitor(process, Pid)};
        error -> {stop, no_encke}
    end.

until(infinity) -> infinity;
until(Timeout) -> erlang:monotonic_time(millisecond) + Timeout.

look(Service, Until) ->
    case global:whereis_name(Service) of
        Pid when is_pid(Pid) ->
            {ok, Pid};
        undefined ->
            % Every number is smaller than an atom.
            case erlang:monotonic_time(millisecond) < Until of
                true ->
                    timer:sleep(?LOOK_MS),
                    look(Service, Until);
                false ->
                    error
            end
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
