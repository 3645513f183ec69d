//! Users and groups by name. `getent` knows them wherever they are kept; the files are enough where it is missing.

use std::process::Command;

/// One line of the user database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u32,
    /// Its first group.
    pub group: u32,
    /// Its home folder.
    pub home: String,
    /// What runs when it logs in.
    pub shell: String,
}

/// One line of the group database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u32,
    /// The users it names as its members.
    pub members: Vec<String>,
}

/// The user of this name or number.
pub fn user(name: &str) -> Option<User> {
    let lines = lines("passwd", Some(name))?;
    lines.lines().filter_map(read_user).find(|user| user.name == name || user.id.to_string() == name)
}

/// The group of this name or number.
pub fn group(name: &str) -> Option<Group> {
    let lines = lines("group", Some(name))?;
    lines.lines().filter_map(read_group).find(|group| group.name == name || group.id.to_string() == name)
}

/// Every group that this user is in.
pub fn groups_of(user: &User) -> Vec<Group> {
    // A directory service may know more groups than it lists.
    let known = Command::new("id").args(["-G", "--", &user.name]).output().ok();
    if let Some(known) = known.filter(|known| known.status.success()) {
        let ids = String::from_utf8_lossy(&known.stdout).into_owned();
        let named = |id: &str| {
            let unnamed = |id: u32| Group { name: id.to_string(), id, members: Vec::new() };
            group(id).or_else(|| id.parse().ok().map(unnamed))
        };
        return ids.split_whitespace().filter_map(named).collect();
    }
    let all = lines("group", None).unwrap_or_default();
    let is_in = |group: &Group| group.id == user.group || group.members.contains(&user.name);
    all.lines().filter_map(read_group).filter(is_in).collect()
}

/// The lines of a database, or those about one name.
fn lines(database: &str, name: Option<&str>) -> Option<String> {
    // A name that looks like an option is none.
    if name.is_some_and(|name| name.is_empty() || name.starts_with('-')) {
        return None;
    }
    match Command::new("getent").arg(database).args(name).output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(_) => std::fs::read_to_string(format!("/etc/{database}")).ok(),
    }
}

fn read_user(line: &str) -> Option<User> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, id, group, _, home, shell] = fields[..] else { return None };
    Some(User {
        name: name.to_owned(),
        id: id.parse().ok()?,
        group: group.parse().ok()?,
        home: home.to_owned(),
        shell: shell.to_owned(),
    })
}

fn read_group(line: &str) -> Option<Group> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, id, members] = fields[..] else { return None };
    let members = members.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Some(Group { name: name.to_owned(), id: id.parse().ok()?, members })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_knows_root() {
        let root = user("root").unwrap();
        assert_eq!((root.id, root.group), (0, 0));
        assert_eq!(user("0").unwrap(), root);
        assert!(groups_of(&root).iter().any(|group| group.id == 0));
        assert_eq!(group("root").unwrap().id, 0);
    }

    #[test]
    fn names_that_are_none_are_nobody() {
        for name in ["", "-r", "no-such-user-here", "root:"] {
            assert_eq!(user(name), None, "{name}");
            assert_eq!(group(name), None, "{name}");
        }
    }

    #[test]
    fn members_are_read_from_the_line() {
        let docker = read_group("docker:x:998:ada,grace").unwrap();
        assert_eq!((docker.id, docker.members), (998, vec!["ada".to_owned(), "grace".to_owned()]));
        assert_eq!(read_group("docker:x:many:"), None);
    }
}
