%% @doc The subscriptions manager: who follows whom, stored by Encke.
%%
%% It is a process of Encke's, under the global name `subsmanager'. A subscription is a tuple
%% `{subscription, Subscriber, Subscribee}': the subscriber hears what is sent about the subscribee.
%% Adding one that is there and removing one that is not are no errors.
%%
%% Many are best given in one call, of up to 128 MiB: some four million. What is refused is told by
%% the answer, by the log of this node and by that of Encke.
-module(subsmanager).

-include_lib("kernel/include/logger.hrl").

-export([add_subscriptions/1, remove_subscriptions/1, get_subscribers/1, add/1, remove/1]).
-export([first_run/0, start_link/0, stop/0]).
-export_type([subscription/0]).

-type subscription() :: {subscription, Subscriber :: router:id(), Subscribee :: router:id()}.

%% @doc Stores subscriptions. When it returns they are on disk. Up to 65,536 of them are stored all
%% or none; of more, and an error, some may be, and the same call may be made again.
-spec add_subscriptions([subscription()]) -> ok | {error, router:reason()}.
add_subscriptions(Subscriptions) ->
    change(add_subscriptions, Subscriptions).

%% @doc Removes subscriptions.
-spec remove_subscriptions([subscription()]) -> ok | {error, router:reason()}.
remove_subscriptions(Subscriptions) ->
    change(remove_subscriptions, Subscriptions).

%% @doc Stores subscriptions, and says how many were new.
-spec add([subscription()]) -> {ok, non_neg_integer()} | {error, router:reason()}.
add(Subscriptions) ->
    change(add, Subscriptions).

%% @doc Removes subscriptions, and says how many were there.
-spec remove([subscription()]) -> {ok, non_neg_integer()} | {error, router:reason()}.
remove(Subscriptions) ->
    change(remove, Subscriptions).

%% @doc Who follows `Id', in {@link encke_id:normal/1. normal form}. An answer is one message of at
%% most 8 MiB; a longer one is `{error, too_large}', and the HTTP API has it page by page.
-spec get_subscribers(router:id()) -> [encke_id:normal()] | {error, router:reason()}.
get_subscribers(Id) ->
    gen_server:call({global, ?MODULE}, {get_subscribers, Id}, infinity).

%% @doc For programs that made their tables with it: there is nothing to be made, Encke has its own.
-spec first_run() -> {atomic, ok}.
first_run() ->
    {atomic, ok}.

%% @doc A process of this node that stands for Encke's, for supervisors: it is there when Encke is,
%% which it waits for up to 30 s, and ends when Encke does.
-spec start_link() -> {ok, pid()} | {error, encke_service:start_error()}.
start_link() ->
    encke_service:start_link(?MODULE).

%% @doc Ends that process. Encke goes on.
-spec stop() -> ok.
stop() ->
    encke_service:stop(?MODULE).

change(What, Subscriptions) ->
    case gen_server:call({global, ?MODULE}, {What, Subscriptions}, infinity) of
        {error, Reason} ->
            ?LOG_WARNING("Encke did not ~s all subscriptions: ~s", [What, Reason]),
            {error, Reason};
        Done ->
            Done
    end.
