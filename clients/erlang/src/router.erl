%% @doc The router: sends events, and lets processes hear them.
%%
%% It is a process of Encke's, under the global name `router'. Each function is a call of
%% `gen_server': it exits with `noproc' while no Encke is connected.
%%
%% A process that is logged in hears `{router_msg, Payload}' for each event about its id and about
%% all that the id is subscribed to, and `{router_closed, Reason}' if the application logs its id
%% out. `{router_gap}' says that a node of a cluster has lost events. It is logged out when it
%% ends, and when the connection to Encke does. Then the application `encke', where it is started,
%% logs it in again as soon as Encke is back; what was sent in between it does not hear. Whoever
%% must know that monitors the router, `monitor(process, global:whereis_name(router))', or is linked
%% with it: {@link login/3}.
%%
%% A process that has asked for {@link presence/1} hears `{online, Id}' when the first connection of
%% an id comes, and `{offline, Id}' when its last one has been gone for Encke's `--presence-grace'.
%% `{presence_lost}' says that some of both are missing: {@link connections/1} tells of one id.
-module(router).

-export([send/2, send/3, login/2, login/3, logout/1, connections/1, members/1]).
-export([events/1, events/2]).
-export([presence/1, presence_off/1]).
-export([await/1, start_link/0, stop/0]).
-export_type([id/0, reason/0, send_option/0, events_option/0, event_part/0]).

-type id() :: encke_id:id().
%% Anything with a name: a user, a group, a photo.

-type reason() :: bad_id | id_too_long | no_json | not_utf8 | not_text | not_json | improper_list | bad_key | doubled_key
                | too_big | too_deep | too_large | overloaded | noproc | noconnection
                | too_many_ids | store | members_off | bad_request.
%% Why something was not done.

%% @doc Hands an event about `Id' to everybody who is logged in as `Id' or as a subscriber of it,
%% processes and browsers alike, and says how many took it.
%%
%% A list of characters and binaries is text: browsers hear a string. `{json, Text}' is JSON already.
%% Every other payload is as the module `json' of OTP 27 has it, with tuples as arrays. Processes hear
%% the term as it is.
-spec send(id(), Payload :: term()) -> {ok, non_neg_integer()} | {error, reason()}.
send(Id, Payload) ->
    gen_server:call({global, ?MODULE}, {send, Id, Payload}).

-type send_option() :: {event, Name :: unicode:chardata() | atom()}
                     | {also, [id()]}
                     | {except, ConnectionId :: unicode:chardata()}.
%% What an event may have beside: a name that tells kinds of events apart, further ids that it is
%% about, and the connection that does not hear it, by the id that its stream has told it.

%% @doc Hands an event about `Id' on as {@link send/2} does, with options. Who hears several of its
%% ids hears it once. Processes hear the payload alone.
-spec send(id(), Payload :: term(), [send_option()]) ->
          {ok, non_neg_integer()} | {error, reason()}.
send(Id, Payload, Options) ->
    gen_server:call({global, ?MODULE}, {send, Id, Payload, Options}).

%% @equiv login(Id, Pid, [])
-spec login(id(), pid()) -> ok | {error, reason()}.
login(Id, Pid) ->
    login(Id, Pid, []).

%% @doc Logs a process in under `Id'. It may be logged in under many, and many under one.
%%
%% With the option `link' it is linked with the router, as the original's were: when Encke ends, or
%% the connection to it, the process does too. So what serves one page ends with what it serves, and
%% the page comes again. A process that is logged out is not linked any more.
-spec login(id(), pid(), [link]) -> ok | {error, reason()}.
login(Id, Pid, Options) when is_pid(Pid) ->
    case gen_server:call({global, ?MODULE}, {login, Id, Pid, Options}, 10000) of
        ok -> encke_logins:logged_in(Id, Pid, Options);
        {error, Reason} -> {error, Reason}
    end.

%% @doc Logs a process out of all its ids. One that hears `{router_closed, Reason}' and lives on
%% should say so too, or it is logged in again when Encke comes back from a restart.
%%
%% Of an id it ends all connections, browsers' too, and says how many there were.
-spec logout(pid()) -> ok;
            (id()) -> {ok, non_neg_integer()} | {error, reason()}.
logout(Pid) when is_pid(Pid) ->
    ok = encke_logins:logged_out(Pid),
    gen_server:call({global, ?MODULE}, {logout, Pid});
logout(Id) ->
    gen_server:call({global, ?MODULE}, {logout, Id}).

%% @doc Says how many connections `Id' has, browsers and processes.
-spec connections(id()) -> {ok, non_neg_integer()} | {error, reason()}.
connections(Id) ->
    gen_server:call({global, ?MODULE}, {connections, Id}).

%% @doc Says who is in the room `Id': the users that are logged in there by a token, each with the
%% term of what its token says of it, `undefined' where that is nothing. Of a room with more than are
%% listed only the count is known.
-spec members(id()) -> {ok, non_neg_integer(), [{id(), Info :: term()}] | too_many}
                           | {error, reason()}.
members(Id) ->
    gen_server:call({global, ?MODULE}, {members, Id}).

-type events_option() :: {'after', EventId :: unicode:chardata()}
                       | {before, EventId :: unicode:chardata()}
                       | {limit, 1..1000}
                       | {order, asc | desc}.
%% Which page of the past of an id.

-type event_part() :: {about, id()} | {also, [id()]} | {event, binary()} | {from, id()}.
%% What an event has beside its payload.

%% @equiv events(Id, [])
-spec events(id()) -> {ok, [{EventId :: binary(), Payload :: term(), [event_part()]}],
                       Next :: binary() | undefined, Gap :: boolean()}
                          | {error, reason()}.
events(Id) ->
    gen_server:call({global, ?MODULE}, {events, Id}).

%% @doc Says what was sent about `Id', as far as Encke remembers or keeps it, in pages: oldest first
%% and 100 of them, if the options say nothing else. `Next' is for the option `after' of the next
%% page, or for `before' where the order is `desc'; it is `undefined' where there are no more. `Gap'
%% says that some of the page are missing.
-spec events(id(), [events_option()]) ->
          {ok, [{EventId :: binary(), Payload :: term(), [event_part()]}],
           Next :: binary() | undefined, Gap :: boolean()}
              | {error, reason()}.
events(Id, Options) ->
    gen_server:call({global, ?MODULE}, {events, Id, Options}).

%% @doc From now on the process hears which ids come and go, until it ends or says
%% {@link presence_off/1}, or the connection to Encke ends: whoever must know that monitors the
%% router, and asks again. Who is online already is not told.
-spec presence(pid()) -> ok | {error, reason()}.
presence(Pid) when is_pid(Pid) ->
    gen_server:call({global, ?MODULE}, {presence, Pid}).

%% @doc The process does not hear it any more.
-spec presence_off(pid()) -> ok | {error, reason()}.
presence_off(Pid) when is_pid(Pid) ->
    gen_server:call({global, ?MODULE}, {presence_off, Pid}).

%% @doc Waits until Encke is there: right after the application has started it is not yet, and calls
%% exit with `noproc'. `{error, no_encke}' says that it did not come within the milliseconds.
-spec await(timeout()) -> ok | {error, no_encke}.
await(Timeout) ->
    encke_service:await(Timeout).

%% @doc A process of this node that stands for Encke's router, for supervisors: it is there when
%% Encke is, which it waits for up to 30 s, and ends when Encke does.
-spec start_link() -> {ok, pid()} | {error, encke_service:start_error()}.
start_link() ->
    encke_service:start_link(?MODULE).

%% @doc Ends that process. Encke goes on.
-spec stop() -> ok.
stop() ->
    encke_service:stop(?MODULE).
