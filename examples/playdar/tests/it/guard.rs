//! Who may ask: names of the daemon, pages of others, tokens, and the forms that grant them.

use crate::live::Live;

const STAT: &str = "/api/?method=stat";

#[tokio::test]
async fn only_its_own_names_reach_it() {
    let live = Live::start().await;
    let port = live.daemon.listen().port();
    for (host, status) in [
        (format!("localhost:{port}"), 200),
        ("127.0.0.1".to_owned(), 200),
        ("[::1]".to_owned(), 200),
        ("music.example".to_owned(), 200),
        (format!("rebound.example:{port}"), 403),
        ("127.0.0.1.rebound.example".to_owned(), 403),
        ("localhost.rebound.example".to_owned(), 403),
    ] {
        for target in [STAT, "/", "/sid/x", "/auth_1/?website=a&name=b"] {
            let reply = live.ask("GET", target, &[("Host", &host)], "").await;
            assert_eq!(reply.status == 403, status == 403, "{host} {target}: {}", reply.status);
        }
    }
    let none = live.send(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").await;
    assert_eq!(none.status, 400);
    let two = b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: b.example\r\nConnection: close\r\n\r\n";
    assert_eq!(live.send(two).await.status, 400);
}

#[tokio::test]
async fn page_of_another_origin_needs_a_token() {
    let live = Live::start().await;
    let own = format!("http://{}", live.host());
    let resolve = "/api/?method=resolve&artist=a&track=b";
    for (name, value, is_foreign) in [
        ("Origin", "http://evil.example", true),
        ("Origin", "null", true),
        ("Origin", own.as_str(), false),
        ("Sec-Fetch-Site", "cross-site", true),
        ("Sec-Fetch-Site", "same-site", true),
        ("Sec-Fetch-Site", "same-origin", false),
        ("Sec-Fetch-Site", "none", false),
    ] {
        let headers = [(name, value)];
        let reply = live.ask("GET", resolve, &headers, "").await;
        assert_eq!(reply.status, if is_foreign { 403 } else { 200 }, "{name}: {value}");
        let stat = live.ask("GET", STAT, &headers, "").await.json();
        assert_eq!(stat["authenticated"], !is_foreign);
        assert_eq!(stat.get("hostname").is_none(), is_foreign, "others learn little");
        let posted = live.ask("POST", "/authcodes", &headers, "revoke=x").await;
        assert_eq!(posted.status, if is_foreign { 403 } else { 404 }, "{name}: {value}");
        let comet = live.ask("GET", "/comet?session=%20", &headers, "").await;
        assert_eq!(comet.status, if is_foreign { 403 } else { 400 });
    }
}

#[tokio::test]
async fn jsonp_needs_a_plain_name_and_a_token() {
    let live = Live::start().await;
    let stat = live.get("/api/?method=stat&jsonp=Playdar.client.handleStat").await;
    assert!(stat.has("content-type: text/javascript; charset=utf-8"), "{}", stat.head);
    assert!(stat.text().starts_with("Playdar.client.handleStat({"), "{}", stat.text());
    assert!(stat.text().ends_with(");\n") && stat.text().contains("\"authenticated\":false"));
    for bad in ["alert(1)", "a%0d%0ab", "%3Cscript%3E", "a;b", ""] {
        let reply = live.get(&format!("/api/?method=stat&jsonp={bad}")).await;
        assert!(reply.status == 400 && !reply.text().contains("alert(1)"), "{bad}");
    }
    let resolve = "/api/?method=resolve&artist=a&track=b&jsonp=f";
    assert_eq!(live.get(resolve).await.status, 403);
    assert_eq!(live.get(&format!("{resolve}&auth=guess")).await.status, 403);
    let token = grant(&live).await;
    let reply = live.get(&format!("{resolve}&auth={token}&call_id=12345")).await;
    assert!(reply.status == 200 && reply.text().starts_with("f({\"qid\":"), "{}", reply.text());
    let origin = [("Origin", "http://a.example")];
    let reply = live.ask("GET", &format!("{STAT}&auth={token}"), &origin, "").await;
    assert!(reply.has("access-control-allow-origin: http://a.example"), "{}", reply.head);
}

/// A token, had as a program has it.
pub(crate) async fn grant(live: &Live) -> String {
    let form = live.get("/auth_1/?website=http://a.example/&name=A&json").await.json();
    let form = form["formtoken"].as_str().unwrap().to_owned();
    let form = format!("website=http%3A%2F%2Fa.example%2F&name=A&json=1&formtoken={form}");
    let reply = live.ask("POST", "/auth_2/", &[], &form).await;
    assert_eq!(live.ask("POST", "/auth_2/", &[], &form).await.status, 404, "a form is good once");
    reply.json()["authtoken"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn token_is_granted_listed_and_taken_back() {
    let live = Live::start().await;
    let token = grant(&live).await;
    let list = live.get("/authcodes?json").await.json();
    let id = list["authcodes"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(list["authcodes"][0]["website"], "http://a.example/");
    assert!(
        !list.to_string().contains(&token) && !live.get("/authcodes").await.text().contains(&token)
    );
    let stat = format!("/api/?method=stat&jsonp=f&auth={token}");
    assert!(live.get(&stat).await.text().contains("\"authenticated\":true"));
    // Another page with a token of its own neither reads that id nor can do anything with it.
    let of_page = format!("/authcodes?json&auth={token}");
    let foreign = [("Origin", "http://a.example")];
    assert_eq!(live.ask("GET", &of_page, &foreign, "").await.status, 403);
    assert_eq!(live.get(&format!("{of_page}&jsonp=f")).await.status, 403);
    live.get(&format!("/authcodes?revoke={id}&jsonp=f&auth={token}")).await;
    assert!(live.get(&stat).await.text().contains("\"authenticated\":true"));
    assert_eq!(live.ask("POST", "/authcodes", &[], &format!("revoke={id}")).await.status, 303);
    assert!(live.get(&stat).await.text().contains("\"authenticated\":false"));
    let token = grant(&live).await;
    let revoked = live.get(&format!("/authcodes?revoke={token}")).await;
    assert!(revoked.status == 302 && revoked.has("location: /authcodes"), "{}", revoked.head);
    assert_eq!(live.get("/authcodes?json").await.json()["authcodes"], serde_json::json!([]));
}

#[tokio::test]
async fn form_shows_foreign_text_as_text_and_brings_the_token() {
    let live = Live::start().await;
    let asked = "website=http://a.example/&name=%3Cscript%3Ealert(1)%3C/script%3E%22";
    let receiver = "receiverurl=http://a.example/back%3Fx%3D1";
    let page = live.get(&format!("/auth_1/?{asked}&{receiver}")).await;
    assert!(!page.text().contains("<script") && page.text().contains("&lt;script&gt;"));
    assert!(page.has("x-frame-options: deny") && page.head.contains("frame-ancestors 'none'"));
    let at = page.text().find("name=\"formtoken\" value=\"").unwrap() + 24;
    let form = &page.text()[at..at + 36];
    let posted =
        live.ask("POST", "/auth_2/", &[], &format!("{asked}&{receiver}&formtoken={form}")).await;
    assert_eq!(posted.status, 301);
    let start = "location: http://a.example/back?x=1&authtoken=";
    assert!(posted.head.lines().any(|line| line.starts_with(start)), "{}", posted.head);
    for bad in ["javascript:alert(1)", "http://a/%0d%0aSet-Cookie:%20x", "/local", "http://a b"] {
        let target = format!("/auth_1/?website=w&name=n&receiverurl={}", bad.replace(' ', "%20"));
        let reply = live.get(&target).await;
        assert!(reply.status == 400 && !reply.head.contains("set-cookie"), "{bad}");
    }
    let foreign = [("Sec-Fetch-Site", "cross-site")];
    let opened = live.ask("GET", "/auth_1/?website=w&name=n", &foreign, "").await;
    assert_eq!(opened.status, 200, "a page may open the form");
    let taken = live.ask("GET", "/auth_1/?website=w&name=n&json", &foreign, "").await;
    assert_eq!(taken.status, 403, "and cannot have its token");
}
