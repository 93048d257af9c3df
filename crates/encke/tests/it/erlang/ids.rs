//! Ids as terms: what is stored comes back equal, the application knows the same forms, and
//! browsers reach each under its text.

use super::client::compiled;
use super::node::{COOKIE, World};
use crate::harness::seed;

/// A fun that makes a random term, some of which are no ids, and a few hundred of them.
const TERMS: &str = "
    One = fun(List) -> lists:nth(rand:uniform(length(List)), List) end,
    R = fun R(D) -> case rand:uniform(if D > 3 -> 7; true -> 10 end) of
        1 -> rand:uniform(1000) - 500;
        2 -> (rand:uniform(1 bsl 64) - (1 bsl 63)) * rand:uniform(1 bsl 40);
        3 -> (rand:uniform() - 0.5) * math:pow(10, rand:uniform(40) - 20);
        4 -> One([a, 'B c', '', photo, x@y, 'a{', '1', '{a,1}']);
        5 -> rand:bytes(rand:uniform(4));
        6 -> One([<<>>, <<\"a\">>, <<\"a/b \\\"c\">>, <<16#20AC/utf8>>, <<\"{a,1}\">>, <<\"-7\">>]);
        7 -> [rand:uniform(300) || _ <- lists:seq(1, rand:uniform(3))];
        8 -> list_to_tuple([R(D + 1) || _ <- lists:seq(1, rand:uniform(4) - 1)]);
        9 -> [R(D + 1) || _ <- lists:seq(1, rand:uniform(4) - 1)];
        10 -> One([#{}, self(), <<1:3>>, [a | b], 0.0, -0.0, 995080289891592.25, {{{}}}, 1 bsl 900])
    end end,
    Ts = [R(0) || _ <- lists:seq(1, 600)],
    Text = fun(T) -> try encke_id:text(T) catch error:_ -> none end end";

#[test]
fn terms_come_back_equal_and_the_application_and_the_server_agree() {
    let (world, ebin) = (World::new(), compiled());
    let server = world.encke(&[]);
    let erl = world.erl_with("app", COOKIE, &["-pa", ebin.path().to_str().unwrap()]);
    let seed = seed();
    erl.eval(&format!("rand:seed(exsss, {seed}), {TERMS}, ok"));
    // What one of them refuses the other refuses too, and there is enough of both.
    let agree = "Good = [T || T <- Ts, is_binary(Text(T))],
        Taken = [T || T <- Ts, is_list(gen_server:call({subsmanager, E}, {get_subscribers, T}))],
        {Good =:= Taken, length(Good) > 200, length(Ts) - length(Good) > 20}";
    assert_eq!(erl.eval(agree), "{true,true,true}");
    assert_eq!(
        erl.eval(
            "{ok, N} = gen_server:call({subsmanager, E},
            {add, [{subscription, T, star} || T <- Good]}), N =:= length(lists:usort(
            [Text(T) || T <- Good]))"
        ),
        "true",
        "two terms are one id where they have one text, and only there"
    );
    let back = "Back = gen_server:call({subsmanager, E}, {get_subscribers, star}),
        length(Back) =:= N andalso maps:from_list([{Text(T), T} || T <- Back]) =:=
            maps:from_list([{Text(T), encke_id:normal(T)} || T <- Good])";
    assert_eq!(erl.eval(back), "true");
    // Tuples and floats are what they were; so is a list that reads as no text.
    let equal = "[T || T <- Good, is_tuple(T) orelse is_float(T), not lists:member(T, Back)]";
    assert_eq!(erl.eval(equal), "[]");
    assert_eq!(
        erl.eval(
            "[T || T <- Back, encke_id:normal(Text(T)) =/= T orelse encke_id:normal(T) =/= T]"
        ),
        "[]"
    );
    // The API has the texts that the application makes.
    let hex =
        erl.eval("binary:encode_hex(iolist_to_binary(lists:join(32, lists:map(Text, Back))))");
    let mut texts: Vec<String> =
        unhex(hex.trim_matches(['<', '>', '"'])).split(' ').map(str::to_owned).collect();
    texts.sort();
    let mut ids = server.api.ids("/subscribers/star", 1_000);
    ids.sort();
    assert_eq!(ids, texts);
}

fn unhex(hex: &str) -> String {
    let bytes = hex.as_bytes().chunks(2).map(|two| str::from_utf8(two).unwrap());
    String::from_utf8(bytes.map(|two| u8::from_str_radix(two, 16).unwrap()).collect()).unwrap()
}

#[test]
fn terms_that_look_alike_do_not_hear_each_other_and_browsers_reach_all() {
    let world = World::new();
    let server = world.encke(&[]);
    let erl = world.erl("a");
    let ids =
        ["{a, <<\"b:c\">>}", "{<<\"a:b\">>, c}", "<<\"a:b:c\">>", "{a, b, c}", "{a, \"b:c\"}"];
    let login = "P = fun(Id) -> S = self(), spawn(fun() ->
        ok = gen_server:call({router, E}, {login, Id, self()}), S ! in,
        (fun F() -> receive {router_msg, M} -> S ! {Id, M}, F() end end)() end),
        receive in -> ok end end";
    erl.eval(login);
    for id in ids {
        assert_eq!(erl.eval(&format!("P({id})")), "ok");
    }
    for id in ids {
        assert_eq!(erl.call("router", &format!("{{send, {id}, x}}")), "{ok,1}", "{id}");
        assert_eq!(erl.eval(&format!("receive {{{id}, x}} -> heard end")), "heard");
    }
    let mut browser =
        server.listener("%7Bphoto,789%7D?id=%7Ba,%3C%3C%22b%5Cx%7B20%7Dc%22%3E%3E%7D");
    assert_eq!(erl.call("router", "{send, {photo, 789}, 1}"), "{ok,1}");
    assert_eq!(erl.call("router", "{send, {a, <<\"b c\">>}, 2}"), "{ok,1}");
    assert_eq!((browser.data(), browser.data()), (1.into(), 2.into()));
    assert_eq!(server.api.send("{a,b,c}", 7), 1);
    assert_eq!(erl.eval("receive {{a, b, c}, 7} -> heard end"), "heard");
}
