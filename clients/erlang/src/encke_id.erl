%% @doc Ids: one rule, both ways.
%%
%% To Encke an id is text. An integer is its digits; an atom, a binary and a string are their text;
%% a tuple is its elements with `:' between, so `{photo, 789}' is `photo:789'. Back, digits are an
%% integer and everything else is a binary, never an atom, since nodes do not free atoms.
-module(encke_id).

-export([normal/1]).
-export_type([id/0, normal/0]).

-type part() :: integer() | atom() | unicode:chardata().
-type id() :: part() | tuple().
%% What stands for an id: a part, or a tuple of at least two parts.

-type normal() :: non_neg_integer() | binary().
%% What an id is when it comes back from Encke.

%% @doc The form in which `Id' comes back: ids that are the same to Encke have the same.
-spec normal(id()) -> normal().
normal(Id) ->
    Text = text(Id),
    try binary_to_integer(Text) of
        Number when Number >= 0, Number < 1 bsl 63 ->
            %% 007 is a name, as it is to Encke.
            case integer_to_binary(Number) of
                Text -> Number;
                _ -> Text
            end;
        _ ->
            Text
    catch
        error:badarg -> Text
    end.

text(Id) when is_tuple(Id), tuple_size(Id) >= 2 ->
    iolist_to_binary(lists:join($:, [part(Part) || Part <- tuple_to_list(Id)]));
text(Id) ->
    part(Id).

part(Part) when is_integer(Part) -> integer_to_binary(Part);
part(Part) when is_atom(Part) -> atom_to_binary(Part, utf8);
part(Part) when is_binary(Part); is_list(Part) -> unicode:characters_to_binary(Part).
