//! Takes a JSON array apart while it arrives, so that a list of ten thousand containers is never in memory as text.

/// What is wrong with an array as a whole. What is wrong inside of an element is left to whoever reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// It does not begin with a bracket.
    NoArray,
    /// There is nothing between two commas.
    EmptyElement,
    /// It ends in the middle.
    CutOff,
    /// Something follows it.
    SomethingAfter,
}

impl From<Malformed> for String {
    fn from(malformed: Malformed) -> Self {
        malformed.to_string()
    }
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoArray => "it is no JSON array",
            Self::EmptyElement => "an element of the JSON array is missing",
            Self::CutOff => "the JSON array is cut off",
            Self::SomethingAfter => "something follows the JSON array",
        })
    }
}

/// An array in the middle of its arrival.
#[derive(Debug, Default)]
pub(super) struct Elements {
    place: Place,
    /// How many brackets and braces are open inside of the element.
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The beginning of an element whose end has not arrived.
    beginning: Vec<u8>,
    /// Whether an element has been seen; after a comma there must be another.
    some: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Before,
    Inside,
    After,
}

impl Elements {
    /// Takes in the next piece and hands out every element that ends in it.
    pub(super) fn take<E: From<Malformed>>(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut start = 0;
        for (index, byte) in piece.iter().enumerate() {
            match self.place {
                Place::Inside => {
                    if self.in_string {
                        self.in_string = self.escaped || *byte != b'"';
                        self.escaped = !self.escaped && *byte == b'\\';
                        continue;
                    }
                    match byte {
                        b'"' => self.in_string = true,
                        b'{' | b'[' => self.depth += 1,
                        b',' | b']' if self.depth == 0 => {
                            let last = *byte == b']';
                            self.end(&piece[start..index], last, &mut each)?;
                            start = index + 1;
                        }
                        b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                        _ => {}
                    }
                }
                Place::Before | Place::After if byte.is_ascii_whitespace() => {}
                Place::Before if *byte == b'[' => {
                    self.place = Place::Inside;
                    start = index + 1;
                }
                Place::Before => return Err(Malformed::NoArray.into()),
                Place::After => return Err(Malformed::SomethingAfter.into()),
            }
        }
        if self.place == Place::Inside {
            self.beginning.extend_from_slice(&piece[start..]);
        }
        Ok(())
    }

    fn end<E: From<Malformed>>(
        &mut self,
        rest: &[u8],
        last: bool,
        each: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let element = if self.beginning.is_empty() {
            rest
        } else {
            self.beginning.extend_from_slice(rest);
            &self.beginning
        };
        let element = element.trim_ascii();
        if !element.is_empty() {
            each(element)?;
        } else if !last || self.some {
            return Err(Malformed::EmptyElement.into());
        }
        self.some = true;
        self.beginning.clear();
        if last {
            self.place = Place::After;
        }
        Ok(())
    }

    /// Says whether all of it has arrived.
    pub(super) fn finish(&self) -> Result<(), Malformed> {
        match self.place {
            Place::After => Ok(()),
            Place::Inside => Err(Malformed::CutOff),
            Place::Before => Err(Malformed::NoArray),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn elements(text: &[u8], piece: usize) -> Result<Vec<String>, Malformed> {
        let mut found = Vec::new();
        let mut elements = Elements::default();
        for piece in text.chunks(piece.max(1)) {
            elements.take(piece, |element| {
                found.push(String::from_utf8_lossy(element).into_owned());
                Ok::<(), Malformed>(())
            })?;
        }
        elements.finish()?;
        Ok(found)
    }

    #[test]
    fn what_is_no_whole_array_is_said_to_be_none() {
        let cases = [
            ("", Malformed::NoArray),
            ("null", Malformed::NoArray),
            ("{}", Malformed::NoArray),
            ("[", Malformed::CutOff),
            ("[1, 2", Malformed::CutOff),
            (r#"["]"#, Malformed::CutOff),
            (r#"["\"]"#, Malformed::CutOff),
            ("[1,]", Malformed::EmptyElement),
            ("[,1]", Malformed::EmptyElement),
            ("[1,,2]", Malformed::EmptyElement),
            ("[] []", Malformed::SomethingAfter),
        ];
        for (text, wrong) in cases {
            for piece in [1, 2, 100] {
                assert_eq!(elements(text.as_bytes(), piece), Err(wrong), "{text}");
            }
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            r#"[a-z\[\]{},:"\\ ]{0,12}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(r#"[a-z\]},"]{0,4}"#, inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn elements_are_the_same_however_they_arrive(
            values in prop::collection::vec(json(), 0..5),
            piece in 1_usize..40,
            pretty in any::<bool>(),
        ) {
            let text = if pretty {
                serde_json::to_string_pretty(&values)
            } else {
                serde_json::to_string(&values)
            }.unwrap();
            let found = elements(text.as_bytes(), piece).unwrap();
            let found: Vec<Value> = found.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
            prop_assert_eq!(found, values);
        }
    }
}
