//! Which containers a list shows, and what it says about each; images.

use serde_json::{Value, json};

use super::arena::{Arena, LISTENS, encoded};
use crate::support::engine::{IMAGE, NETWORK};

fn label(labels: &Value) -> Value {
    json!({ "Labels": labels })
}

pub(crate) fn a_list_shows_what_runs_or_everything(arena: &Arena) {
    arena.create("made", "sleep 100");
    arena.exited("ended", 0);
    arena.running("runs", "sleep 100");
    let paused = arena.running("paused", "sleep 100");
    arena.pause(&paused);
    assert_eq!(arena.names("", &json!({})), ["paused", "runs"]);
    assert_eq!(arena.names("all=0", &json!({})), ["paused", "runs"]);
    for all in ["all=1", "all=true", "all=x"] {
        assert_eq!(arena.names(all, &json!({})), ["ended", "made", "paused", "runs"], "{all}");
    }
}

pub(crate) fn a_row_says_what_it_is(arena: &Arena) {
    let id = arena.running_with("row", LISTENS, &label(&json!({ "app": "atlas" })));
    let rows = arena.get("/containers/json").json();
    let row = &rows[0];
    let inspected = arena.inspect(&id);
    assert_eq!(rows.as_array().unwrap().len(), 1);
    assert_eq!((&row["Id"], &row["Names"]), (&json!(id), &json!(["/row"])));
    assert_eq!((&row["Image"], &row["ImageID"]), (&json!(IMAGE), &inspected["Image"]));
    assert_eq!((&row["State"], &row["Labels"]), (&json!("running"), &json!({ "app": "atlas" })));
    assert_eq!((&row["Ports"], &row["Mounts"]), (&json!([]), &json!([])));
    assert!(row["Created"].is_i64() && row["Status"].as_str().unwrap().starts_with("Up "), "{row}");
    arena.pause(&id);
    let row = &arena.get("/containers/json").json()[0];
    assert!(row["Status"].as_str().unwrap().ends_with("(Paused)"), "{row}");
    arena.expect(204, &id, "stop?t=60");
    let row = &arena.get("/containers/json?all=1").json()[0];
    assert_eq!(row["State"], "exited");
    assert!(row["Status"].as_str().unwrap().starts_with("Exited (3) "), "{row}");
}

pub(crate) fn the_newest_come_first_and_a_limit_keeps_them(arena: &Arena) {
    for name in ["first", "second", "third"] {
        arena.create(name, "sleep 100");
    }
    let names = |query: &str| -> Vec<Value> {
        let rows = arena.get(&format!("/containers/json?{query}")).json();
        rows.as_array().unwrap().iter().map(|row| row["Names"][0].clone()).collect()
    };
    assert_eq!(names("all=1"), ["/third", "/second", "/first"]);
    assert_eq!(names("limit=2"), ["/third", "/second"], "a limit means those that do not run as well");
    assert_ne!(arena.get("/containers/json?limit=x").status, 200);
}

pub(crate) fn labels_must_all_fit(arena: &Arena) {
    arena.create_with("both", "sleep 100", &label(&json!({ "app": "atlas", "tier": "one" })));
    arena.create_with("one", "sleep 100", &label(&json!({ "app": "atlas" })));
    arena.create_with("other", "sleep 100", &label(&json!({ "app": "borealis" })));
    let names = |labels: Value| arena.names("all=1", &json!({ "label": labels }));
    assert_eq!(names(json!(["app"])), ["both", "one", "other"]);
    assert_eq!(names(json!(["app=atlas"])), ["both", "one"]);
    assert_eq!(names(json!(["app=atlas", "tier"])), ["both"]);
    assert_eq!(names(json!(["app=atlas", "app=borealis"])), [""; 0]);
    assert_eq!(names(json!(["nothing"])), [""; 0]);
    assert_eq!(names(json!({ "app=atlas": true })), ["both", "one"], "the old form");
}

pub(crate) fn names_are_patterns_and_ids_beginnings(arena: &Arena) {
    let id = arena.create("alpha", "sleep 100");
    arena.create("alphabet", "sleep 100");
    arena.create("beta", "sleep 100");
    let by_name = |name: &str| arena.names("all=1", &json!({ "name": [name] }));
    assert_eq!(by_name("alpha"), ["alpha", "alphabet"]);
    assert_eq!(by_name("^alpha$"), ["alpha"]);
    assert_eq!(by_name("^/alpha$"), ["alpha"]);
    assert_eq!(by_name("^/?(alpha|beta)$"), ["alpha", "beta"]);
    assert_eq!(arena.names("all=1", &json!({ "name": ["beta", "alphabet"] })), ["alphabet", "beta"]);
    let by_id = |id: &str| arena.names("all=1", &json!({ "id": [id] }));
    assert_eq!(by_id(&id), ["alpha"]);
    assert_eq!(by_id(&id[..12]), ["alpha"]);
    assert_eq!(by_id(&id[1..13]), [""; 0]);
}

pub(crate) fn states_and_exit_codes_choose(arena: &Arena) {
    arena.create("made", "sleep 100");
    arena.exited("good", 0);
    arena.exited("bad", 7);
    arena.running("runs", "sleep 100");
    let names = |filters: Value| arena.names("", &filters);
    assert_eq!(names(json!({ "status": ["created"] })), ["made"], "a state shows what does not run");
    assert_eq!(names(json!({ "status": ["exited"] })), ["bad", "good"]);
    assert_eq!(names(json!({ "status": ["running", "created"] })), ["made", "runs"]);
    assert_eq!(arena.names("all=1", &json!({ "exited": ["7"] })), ["bad"]);
    assert_eq!(arena.names("all=1", &json!({ "exited": ["0"] })), ["good"]);
}

pub(crate) fn age_and_image_choose(arena: &Arena) {
    for name in ["first", "second", "third"] {
        arena.create(name, "sleep 100");
    }
    let names = |filters: Value| arena.names("all=1", &filters);
    assert_eq!(names(json!({ "before": ["second"] })), ["first"]);
    assert_eq!(names(json!({ "since": ["second"] })), ["third"]);
    assert_eq!(names(json!({ "ancestor": [IMAGE] })), ["first", "second", "third"]);
    assert_eq!(names(json!({ "network": [NETWORK] })), ["first", "second", "third"]);
    assert_eq!(names(json!({ "network": ["other"] })), [""; 0]);
}

pub(crate) fn a_filter_nobody_knows_is_refused(arena: &Arena) {
    let ask = |filters: &str| arena.get(&format!("/containers/json?filters={}", encoded(filters)));
    let answer = ask(r#"{"colour":["red"]}"#);
    assert_eq!((answer.status, answer.message()), (400, "Invalid filter 'colour'".to_owned()));
    let answer = ask(r#"{"status":["levitating"]}"#);
    assert_eq!((answer.status, answer.message()), (400, "Invalid filter 'status=levitating'".to_owned()));
    assert_eq!(ask("garbage").status, 500);
    assert_eq!(ask("").status, 200);
    assert_eq!(ask("{}").status, 200);
}

pub(crate) fn an_image_is_found_by_tag_and_id(arena: &Arena) {
    let image = arena.get(&format!("/images/{IMAGE}/json"));
    assert_eq!(image.status, 200);
    let image = image.json();
    let id = image["Id"].as_str().unwrap();
    assert!(id.starts_with("sha256:") && id.len() == 71, "{id}");
    assert_eq!(image["RepoTags"], json!([IMAGE]));
    let bare = IMAGE.strip_suffix(":latest").unwrap();
    for reference in [id, &id[7..], &id[7..19], bare] {
        let found = arena.get(&format!("/images/{reference}/json"));
        assert_eq!(found.json()["Id"], json!(id), "{reference}");
    }
    for reference in ["nowhere", "nowhere:1", &"0".repeat(64)] {
        let missing = arena.get(&format!("/images/{reference}/json"));
        assert_eq!(missing.status, 404, "{reference}");
        assert!(missing.message().to_lowercase().contains("no such image"), "{}", missing.message());
    }
}
