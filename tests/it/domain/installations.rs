//! Which installation is ours, where several may share an engine.

use sandkeeper::domain::Status;

use crate::facts::*;

#[test]
fn an_installation_of_which_the_store_claims_nothing_is_not_ours() {
    let facts = Facts::native()
        .container(sandbox("running").instance("theirs"))
        .container(sandbox("exited").instance("theirs").state("exited"))
        .session(session("s1").uses("elsewhere").ended_ago("1h"));
    for name in ["running", "exited"] {
        facts.finds(name, Status::Unknown).because("--instance theirs");
    }
    let named = facts.policy(|policy| policy.instance = Some("theirs".to_owned()));
    named.finds("exited", Status::Orphaned);
}

#[test]
fn a_name_or_a_workspace_that_both_use_proves_nothing() {
    let facts = Facts::native()
        .container(sandbox("atlas-1").workspace("atlas").instance("theirs").state("exited"))
        .session(session("s1").workspace("atlas").ended_ago("1h"))
        .session(session("s2").uses("atlas-1").ended_ago("1h"));
    facts.finds("atlas-1", Status::Unknown).because("belongs to instance theirs");
}

#[test]
fn a_container_claimed_by_its_id_proves_its_whole_installation_ours() {
    let (full, short) = (id_of("one").to_string(), id_of("one").short().to_owned());
    for claimed in [full, short] {
        let facts = Facts::native()
            .container(sandbox("one").instance("ours"))
            .container(sandbox("two").instance("ours").state("exited"))
            .container(sandbox("three").instance("theirs").state("exited"))
            .container(sandbox("four").state("exited"))
            .session(session("s1").uses(&claimed).ended_ago("1h"));
        facts.finds("two", Status::Orphaned);
        facts.finds("three", Status::Unknown).because("belongs to instance theirs");
        facts.finds("four", Status::Unknown).because("names no instance, while ours is ours");
    }
}

#[test]
fn a_session_id_that_the_container_carries_is_proof_unless_every_store_has_it() {
    let facts = |id: &str| {
        Facts::native()
            .container(sandbox("one").instance("ours").label("sandkeeper.session", id))
            .container(sandbox("two").instance("ours").state("exited"))
            .session(session(id).ended_ago("1h"))
    };
    facts("5f3ac8d4").finds("two", Status::Orphaned);
    facts("17").finds("two", Status::Unknown).because("belongs to instance ours");
}

#[test]
fn a_proof_is_remembered_after_the_container_that_gave_it_is_gone() {
    let claimed = id_of("one").to_string();
    let facts = Facts::native()
        .container(sandbox("one").instance("ours"))
        .session(session("s1").uses(&claimed).ended_ago("1h"))
        .remembered();
    let mut later = Facts::native().container(sandbox("two").instance("ours").state("exited"));
    later.last_store().memory = facts.snapshot.systems[0].stores[0].memory.clone();
    later.finds("two", Status::Orphaned);
}
