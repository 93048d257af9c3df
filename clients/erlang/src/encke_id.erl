%% @doc Ids: each term has one text, and each text is one term.
%%
%% An atom, a binary and a string are their text, an integer its digits, every other term the text
%% in which it is written, without a blank: `{photo, 789}' is `{photo,789}'. So `123', `"123"' and
%% `<<"123">>' are one id, and so are `bob' and `<<"bob">>'; within a tuple or a list they are apart.
%% A text in which an integer, a float, a tuple or a list is written is that term.
%%
%% Maps, processes and other terms without a written form are no ids, nor is a text of more than 255
%% bytes, an empty one, or one with a blank, a control character, `/', `?' or `#' in it.
-module(encke_id).

-export([normal/1, text/1]).
-export_type([id/0, normal/0]).

-type id() :: integer() | float() | atom() | binary() | string() | tuple() | list().
%% What stands for an id.

-type normal() :: integer() | float() | binary() | tuple() | list().
%% What an id is when it comes back from Encke.

%% The longest id, in bytes.
-define(MAX, 255).

%% @doc The form in which `Id' comes back: ids that are the same to Encke have the same. `badarg' if
%% it is none. No atom is made: a text with one in it that this node does not have stays a text.
-spec normal(id()) -> normal().
normal(Id) ->
    Text = text(Id),
    try
        {Term, <<>>} = term(Text),
        Text = text(Term),
        true = not is_atom(Term) andalso not is_binary(Term),
        Term
    catch
        error:_ -> Text
    end.

%% @doc The text of `Id', as browsers and the API name it: `/stream/' and this, with
%% `uri_string:quote/1', is the path of its events. `badarg' if it is none.
-spec text(id()) -> binary().
text(Id) ->
    Text = iolist_to_binary(plain(Id)),
    Forbidden = fun(C) -> is_control(C) orelse is_blank(C) orelse lists:member(C, "/?#") end,
    case byte_size(Text) =< ?MAX andalso unicode:characters_to_list(Text) of
        [_ | _] = Characters ->
            case lists:any(Forbidden, Characters) of
                false -> Text;
                true -> error(badarg, [Id])
            end;
        _ ->
            error(badarg, [Id])
    end.

plain([]) -> [];
plain(Id) when is_atom(Id) -> atom_to_binary(Id, utf8);
plain(Id) when is_binary(Id) -> Id;
plain(Id) when is_list(Id) ->
    case is_characters(Id) of
        true -> unicode:characters_to_binary(Id);
        false -> written(Id)
    end;
plain(Id) ->
    written(Id).

%%% How a term is written.

written(Term) when is_integer(Term) -> integer_to_binary(Term);
written(Term) when is_float(Term) -> digits(float_to_list(Term, [short]));
written(Term) when is_atom(Term) ->
    case atom_to_list(Term) of
        [First | Rest] = Name when First >= $a, First =< $z ->
            case lists:all(fun is_of_bare/1, Rest) of
                true -> Name;
                false -> quoted($', Name)
            end;
        Name ->
            quoted($', Name)
    end;
written(Term) when is_binary(Term) ->
    case unicode:characters_to_list(Term) of
        Characters when is_list(Characters) -> ["<<", quoted($", Characters), ">>"];
        _ -> ["<<", elements(binary_to_list(Term)), ">>"]
    end;
written(Term) when is_tuple(Term) -> [${, elements(tuple_to_list(Term)), $}];
written([]) -> "[]";
written(Term) when is_list(Term) ->
    case is_characters(Term) of
        true -> quoted($", Term);
        false -> [$[, elements(Term), $]]
    end;
written(Term) ->
    error(badarg, [Term]).

elements(Terms) ->
    lists:join($,, [written(Term) || Term <- Terms]).

%% Always with its sign, one digit before the point, and the fewest digits that are read as it.
digits([$- | Shortest]) -> digits($-, Shortest);
digits(Shortest) -> digits($+, Shortest).

digits(Sign, Shortest) ->
    {Mantissa, Exponent} = exponent(string:split(Shortest, "e")),
    [Whole, Part] = string:split(Mantissa, "."),
    Digits = string:trim(Whole ++ Part, leading, "0"),
    Zeros = length(Whole ++ Part) - length(Digits),
    case string:trim(Digits, trailing, "0") of
        "" -> [Sign, "0.0"];
        [First | Rest] ->
            Power = Exponent + length(Whole) - 1 - Zeros,
            [Sign, First, $., case Rest of "" -> "0"; _ -> Rest end,
             [[$e, integer_to_list(Power)] || Power =/= 0]]
    end.

exponent([Mantissa, Exponent]) -> {Mantissa, list_to_integer(Exponent)};
exponent([Mantissa]) -> {Mantissa, 0}.

quoted(Quote, Characters) ->
    unicode:characters_to_binary([Quote, [escaped(C) || C <- Characters], Quote]).

escaped(C) ->
    case is_control(C) orelse is_blank(C) orelse lists:member(C, "/?#\\\"'") of
        true -> ["\\x{", integer_to_list(C, 16), "}"];
        false -> C
    end.

%% Whether a list is of characters alone, none of them a control character.
is_characters([C]) -> is_character(C);
is_characters([C | Rest]) -> is_character(C) andalso is_characters(Rest);
is_characters(_) -> false.

is_character(C) ->
    is_integer(C) andalso not is_control(C) andalso
        ((C >= 0 andalso C < 16#D800) orelse (C > 16#DFFF andalso C =< 16#10FFFF)).

is_control(C) -> (C >= 0 andalso C < 16#20) orelse (C >= 16#7F andalso C < 16#A0).

%% White space by Unicode, but for what are control characters.
is_blank(C) ->
    (C >= 16#2000 andalso C =< 16#200A) orelse
        lists:member(C, [16#20, 16#A0, 16#1680, 16#2028, 16#2029, 16#202F, 16#205F, 16#3000]).

is_of_bare(C) ->
    (C >= $a andalso C =< $z) orelse (C >= $A andalso C =< $Z) orelse
        (C >= $0 andalso C =< $9) orelse C =:= $_ orelse C =:= $@.

%%% And read. An error, whichever, is no term.

term(<<"{", Rest/binary>>) ->
    {Elements, More} = terms(Rest, $}),
    {list_to_tuple(Elements), More};
term(<<"[", Rest/binary>>) -> terms(Rest, $]);
term(<<"\"", Rest/binary>>) -> unquoted(Rest, $", []);
term(<<"<<\"", Rest/binary>>) ->
    {Characters, <<">>", More/binary>>} = unquoted(Rest, $", []),
    {unicode:characters_to_binary(Characters), More};
term(<<"<<", Rest/binary>>) ->
    [Bytes, More] = binary:split(Rest, <<">>">>),
    Split = binary:split(Bytes, <<",">>, [global]),
    {list_to_binary([binary_to_integer(Byte) || Byte <- Split]), More};
term(<<"'", Rest/binary>>) ->
    {Characters, More} = unquoted(Rest, $', []),
    {list_to_existing_atom(Characters), More};
term(<<First, _/binary>> = Text) when First >= $a, First =< $z ->
    {Name, More} = span(fun is_of_bare/1, Text),
    {binary_to_existing_atom(Name, utf8), More};
term(Text) ->
    {Number, More} = span(fun(C) -> lists:member(C, "0123456789+-.e") end, Text),
    case binary:match(Number, <<".">>) of
        nomatch -> {binary_to_integer(Number), More};
        _ -> {binary_to_float(Number), More}
    end.

terms(Text, Close) ->
    case Text of
        <<Close, More/binary>> -> {[], More};
        _ -> terms(Text, Close, [])
    end.

terms(Text, Close, Before) ->
    {Term, Rest} = term(Text),
    case Rest of
        <<Close, More/binary>> -> {lists:reverse(Before, [Term]), More};
        <<$,, More/binary>> -> terms(More, Close, [Term | Before])
    end.

unquoted(<<"\\x{", Rest/binary>>, Quote, Before) ->
    [Code, More] = binary:split(Rest, <<"}">>),
    unquoted(More, Quote, [binary_to_integer(Code, 16) | Before]);
unquoted(<<Quote, More/binary>>, Quote, Before) ->
    {lists:reverse(Before), More};
unquoted(<<C/utf8, More/binary>>, Quote, Before) ->
    unquoted(More, Quote, [C | Before]).

span(Takes, Text) ->
    span(Takes, Text, 0).

span(Takes, Text, Size) ->
    case Text of
        <<_:Size/binary, C, _/binary>> ->
            case Takes(C) of
                true -> span(Takes, Text, Size + 1);
                false -> split_binary(Text, Size)
            end;
        _ ->
            split_binary(Text, Size)
    end.
