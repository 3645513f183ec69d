//! What every theme must be: complete, legible, and telling things apart on every kind of terminal.

use rstest::rstest;

use super::*;

const DEPTHS: [Depth; 4] = [Depth::None, Depth::Sixteen, Depth::TwoHundredFiftySix, Depth::True];

fn theme(name: &str, depth: Depth) -> Theme {
    Theme::named(name, None, depth).unwrap()
}

fn every_theme() -> impl Iterator<Item = (&'static str, Depth, Theme)> {
    let names = BUILT_IN.iter().map(|(name, _)| *name);
    names.flat_map(|name| DEPTHS.map(|depth| (name, depth, theme(name, depth))))
}

#[test]
fn every_theme_has_every_role_on_every_terminal() {
    for (name, depth, theme) in every_theme() {
        for (role_name, role) in Role::all() {
            assert!(theme.styles.contains_key(&role), "{name} at {depth:?} has no {role_name}");
        }
    }
}

#[test]
fn roles_that_stand_side_by_side_differ_on_every_terminal() {
    for (name, depth, theme) in every_theme() {
        for (one, other) in [
            (Role::Text, Role::Selection),
            (Role::Text, Role::Marked),
            (Role::Button, Role::ButtonFocused),
            (Role::Good, Role::Warning),
            (Role::Good, Role::Danger),
            (Role::Warning, Role::Danger),
            (Role::ReadOnly, Role::ReadWrite),
            (Role::Dim, Role::Tab),
        ] {
            assert_ne!(theme.style(one), theme.style(other), "{one:?} and {other:?} in {name} at {depth:?}");
        }
        for (index, one) in Status::ALL.into_iter().enumerate() {
            for other in &Status::ALL[index + 1..] {
                let (left, right) = (theme.style(Role::Status(one)), theme.style(Role::Status(*other)));
                assert_ne!(left, right, "{one} and {other} in {name} at {depth:?}");
            }
        }
    }
}

#[test]
fn without_colours_there_are_none_whatever_the_theme() {
    for (name, depth, theme) in every_theme() {
        if depth == Depth::None || name == "none" {
            for (role, style) in &theme.styles {
                assert_eq!((style.fg, style.bg), (None, None), "{role:?} in {name} at {depth:?}");
            }
        }
    }
    let modifiers =
        |name| Role::all().map(|(_, role)| theme(name, Depth::None).style(role)).collect::<Vec<_>>();
    assert_eq!(modifiers("dark"), modifiers("none"));
}

#[test]
fn a_lesser_terminal_gets_no_colours_it_has_not() {
    for (name, depth, theme) in every_theme() {
        for colour in theme.styles.values().flat_map(|style| [style.fg, style.bg]).flatten() {
            match (colour, depth) {
                (Color::Rgb(..), Depth::True) | (Color::Indexed(_), Depth::TwoHundredFiftySix) => {}
                (Color::Rgb(..) | Color::Indexed(_), _) => panic!("{colour:?} in {name} at {depth:?}"),
                _ => assert!(depth > Depth::None),
            }
        }
    }
}

/// The colours that reach the eye: what a style leaves open is the ground's.
fn seen(theme: &Theme, role: Role) -> (Rgb, Rgb) {
    let rgb = |colour: Option<Color>, ground| colour.and_then(rgb_of).unwrap_or(ground);
    let (style, ground) = (theme.style(role), theme.ground());
    (rgb(style.fg, ground.0), rgb(style.bg, ground.1))
}

/// The contrast ratio of the Web Content Accessibility Guidelines.
fn contrast((text, ground): (Rgb, Rgb)) -> f64 {
    let luminance = |Rgb(red, green, blue): Rgb| {
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    };
    let (text, ground) = (luminance(text), luminance(ground));
    (text.max(ground) + 0.05) / (text.min(ground) + 0.05)
}

#[rstest]
#[case("dark", 4.5)]
#[case("light", 4.5)]
#[case("deuteranopia", 4.5)]
#[case("high-contrast", 7.0)]
fn text_is_legible(#[case] name: &str, #[case] least: f64) {
    for depth in [Depth::True, Depth::TwoHundredFiftySix] {
        let theme = theme(name, depth);
        for (role_name, role) in Role::all().filter(|(_, role)| *role != Role::Border) {
            let ratio = contrast(seen(&theme, role));
            assert!(ratio >= least, "{role_name} in {name} at {depth:?}: {ratio:.2}");
            // Rows of every kind can be under the cursor or in a dialog.
            if theme.style(role).bg.is_none() {
                for ground in [Role::Selection, Role::Dialog] {
                    let on = seen(&theme, ground).1;
                    // The selection of high contrast has letters of its own.
                    if theme.style(ground).fg.is_none() || ground == Role::Dialog {
                        let ratio = contrast((seen(&theme, role).0, on));
                        assert!(ratio >= 3.5, "{role_name} on {ground:?} in {name} at {depth:?}: {ratio:.2}");
                    }
                }
            }
        }
    }
}

/// How a colour looks to an eye without the receptor for green (Machado, Oliveira and Fernandes, 2009).
fn without_green(Rgb(red, green, blue): Rgb) -> [f64; 3] {
    let [red, green, blue] = [red, green, blue].map(f64::from);
    [
        0.367_322 * red + 0.860_646 * green - 0.227_968 * blue,
        0.280_085 * red + 0.672_501 * green + 0.047_413 * blue,
        -0.011_820 * red + 0.042_940 * green + 0.968_881 * blue,
    ]
}

#[test]
fn whoever_cannot_tell_red_from_green_can_tell_good_from_bad() {
    let theme = theme("deuteranopia", Depth::True);
    let looks = [Role::Good, Role::Warning, Role::Danger].map(|role| without_green(seen(&theme, role).0));
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let squares = looks[one].iter().zip(looks[other]).map(|(a, b)| (a - b).powi(2));
        let distance = squares.sum::<f64>().sqrt();
        assert!(distance > 45.0, "{one} and {other}: {distance:.0}");
    }
}

fn own(text: &str) -> Result<Theme, ThemeFault> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.toml"), text).unwrap();
    Theme::named("mine", Some(folder.path()), Depth::True)
}

#[test]
fn a_theme_of_ones_own_names_only_what_differs() {
    let mine = own("base = \"light\"\n[roles]\nactive = { fg = \"#010203\", underline = true }\n").unwrap();
    let expected = Style::new().fg(Color::Rgb(1, 2, 3)).add_modifier(Modifier::UNDERLINED);
    assert_eq!(mine.style(Role::Status(Status::Active)), expected);
    assert_eq!(mine.style(Role::Danger), theme("light", Depth::True).style(Role::Danger));
}

#[rstest]
#[case("[roles]\nactiv = {}\n", ":2: `activ`: unknown role; did you mean `active`?")]
#[case("[roles]\nzzzzzzzz = {}\n", "the roles are text, dim")]
#[case("[roles]\nactive = { fg = \"#12\" }\n", ":2: `fg`: `#12` is not a colour; write `#rrggbb`")]
#[case("[roles]\nactive = { bg16 = \"rad\" }\n", ":2: `bg16`: `rad` is not a colour")]
#[case("[roles]\nactive = { colour = \"red\" }\n", "unknown key")]
#[case("base = \"sombre\"\n", ":1: `base`: there is no such theme; write one of dark, light")]
#[case("background = \"red\"\n", ":1: `background`: `red` is not a colour")]
#[case("[roles\n", ":1")]
fn what_is_wrong_with_a_theme_is_said_with_its_place(#[case] text: &str, #[case] expected: &str) {
    let fault = own(text).unwrap_err().to_string();
    assert!(fault.contains("mine.toml") && fault.contains(expected), "{fault}");
}

#[test]
fn a_theme_that_is_not_there_is_named_with_what_is() {
    let fault = |name| Theme::named(name, None, Depth::None).unwrap_err().to_string();
    assert_eq!(fault("lihgt"), "there is no theme `lihgt`; did you mean `light`?");
    assert!(fault("zzzzzzzzzzzz").contains("there are dark, light, high-contrast"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret.toml"), "").unwrap();
    let below = folder.path().join("themes");
    std::fs::create_dir(&below).unwrap();
    assert!(Theme::named("../secret", Some(&below), Depth::True).is_err());
    assert_eq!(names(Some(folder.path())).last().unwrap(), "secret");
}

#[test]
fn a_terminal_that_says_it_is_light_gets_the_light_theme() {
    let usual = |value: &str| {
        let variables = [("COLORFGBG".to_owned(), value.to_owned())].into();
        Theme::usual(&Environment { variables, ..Environment::default() })
    };
    assert_eq!(
        ["0;15", "0;default;15", "15;0", "", "15"].map(usual),
        ["light", "light", "dark", "dark", "light"]
    );
}
