%% @doc The subscriptions manager: who follows whom, stored by Encke.
%%
%% It is a process of Encke's, under the global name `subsmanager'. A subscription is a tuple
%% `{subscription, Subscriber, Subscribee}': the subscriber hears what is sent about the subscribee.
%% Adding one that is there and removing one that is not are no errors.
-module(subsmanager).

-export([add_subscriptions/1, remove_subscriptions/1, get_subscribers/1]).
-export_type([subscription/0]).

-type subscription() :: {subscription, Subscriber :: router:id(), Subscribee :: router:id()}.

%% @doc Stores subscriptions, all of them or none, and says how many were new. When it returns they
%% are on disk.
-spec add_subscriptions([subscription()]) ->
          {ok, non_neg_integer()} | {error, router:reason()}.
add_subscriptions(Subscriptions) ->
    gen_server:call({global, ?MODULE}, {add_subscriptions, Subscriptions}, infinity).

%% @doc Removes subscriptions, and says how many were there.
-spec remove_subscriptions([subscription()]) ->
          {ok, non_neg_integer()} | {error, router:reason()}.
remove_subscriptions(Subscriptions) ->
    gen_server:call({global, ?MODULE}, {remove_subscriptions, Subscriptions}, infinity).

%% @doc Who follows `Id', in {@link encke_id:normal/1. normal form}. An answer is one message of at
%% most 8 MiB; a longer one is `{error, too_large}', and the HTTP API has it page by page.
-spec get_subscribers(router:id()) -> [encke_id:normal()] | {error, router:reason()}.
get_subscribers(Id) ->
    gen_server:call({global, ?MODULE}, {get_subscribers, Id}, infinity).
