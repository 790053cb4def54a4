//! Tests with templates as in Corefiles. The expected texts come from Go's package.

use std::collections::BTreeMap;

use super::*;

fn filled(source: &str) -> String {
    let texts = |all: &[&str]| all.iter().map(|it| Value::Text((*it).to_owned())).collect();
    let group = [("a", "ff"), ("b", "7")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let question = BTreeMap::from([
        ("Name", Value::Text("n.".into())),
        ("Qtype", Value::Number(1)),
    ]);
    let data = Value::Fields(BTreeMap::from([
        ("Name", Value::Text("host.example.".to_owned())),
        ("Match", Value::List(texts(&["whole", "one", "two"]))),
        ("Group", Value::Map(BTreeMap::from(group))),
        ("Question", Value::Fields(question)),
    ]));
    let fields = ["Name", "Match", "Group", "Question", "Meta"];
    match Template::parse(source, &fields) {
        Err(error) => format!("refused: {error}"),
        Ok(template) => match template.fill(&data, &|label| format!("<{label}>")) {
            Ok(text) => text,
            Err(error) => format!("failed: {error}"),
        },
    }
}

#[test]
fn templates_of_corefiles_are_filled_in() {
    for (source, want) in [
        (
            "{{ .Name }} 60 IN A 10.0.0.1",
            "host.example. 60 IN A 10.0.0.1",
        ),
        ("{{.Name}}{{ .Group.b }}", "host.example.7"),
        ("{{ index .Match 1 }}.{{ index .Group \"b\" }}", "one.7"),
        ("{{ parseInt .Group.a 16 8 }}", "255"),
        ("{{ .Group.none }}|{{ index .Group `none` }}", "<no value>|"),
        ("a {{- .Name -}} b", "ahost.example.b"),
        ("a{{/* nothing */}}b {{- /* trims */ -}} c", "abc"),
        ("{{ .Meta \"a/b\" }} {{ \"c/d\" | .Meta }}", "<a/b> <c/d>"),
        (
            "{{ $x := index .Match 2 }}{{ $x }}{{ $x = \"new\" }}{{ $x }}",
            "twonew",
        ),
        (
            "{{ if eq .Group.b \"6\" \"7\" }}yes{{ else }}no{{ end }}",
            "yes",
        ),
        (
            "{{ if eq .Name \"x\" }}1{{ else if .Group.z }}2{{ else }}3{{ end }}",
            "3",
        ),
        (
            "{{ with .Question }}{{ .Name }}{{ .Qtype }}{{ $.Name }}{{ end }}",
            "n.1host.example.",
        ),
        ("{{ with .Group.z }}x{{ else }}y{{ end }}", "y"),
        ("{{ (index .Match 0) | print 1 2 }}", "1 2whole"),
        (
            "{{ printf \"%02x-%s-%3d|%-3d|%%\" (parseInt \"10\" 10 8) .Name 5 6 }}",
            "0a-host.example.-  5|6  |%",
        ),
        (
            "{{ len .Match }} {{ and 1 0 }} {{ or 0 \"x\" }} {{ not true }} {{ lt 1 2 }}",
            "3 0 x false true",
        ),
        (
            "{{ .Match }} {{ .Group }} {{ ne 1 2 }} {{ ge 1 2 }}",
            "[whole one two] map[a:ff b:7] true false",
        ),
        ("no action", "no action"),
    ] {
        assert_eq!(filled(source), want, "{source}");
    }
}

#[test]
fn a_template_that_is_not_supported_is_refused_at_its_place() {
    for (source, want) in [
        (
            "{{ .Nmae }}",
            "refused: there is no .Nmae, but .Name .Match .Group .Question .Meta (character 4)",
        ),
        (
            "{{ range .Match }}{{ end }}",
            "refused: range is not supported in templates (character 4)",
        ),
        (
            "{{ html .Name }}",
            "refused: html is not supported in templates (character 4)",
        ),
        (
            "ab {{ .Name",
            "refused: this action has no }} (character 6)",
        ),
        ("{{ if .Name }}", "refused: if without end (character 1)"),
        (
            "{{ end }}",
            "refused: an end or else without if or with (character 10)",
        ),
        ("{{ }}", "refused: this action is empty (character 1)"),
        ("{{ $x }}", "refused: there is no variable $x (character 4)"),
        (
            "{{ .Name .Name }}",
            "refused: only functions take arguments (character 4)",
        ),
        (
            "{{ 1.5 }}",
            "refused: only whole numbers are supported (character 4)",
        ),
        (
            "{{ \"x }}",
            "refused: this text has no closing \" (character 4)",
        ),
        ("{{ (print 1 }}", "refused: ( without ) (character 4)"),
    ] {
        assert_eq!(filled(source), want, "{source}");
    }
}

#[test]
fn data_that_does_not_fit_fails() {
    for (source, want) in [
        (
            "{{ index .Match 3 }}",
            "failed: template: there is no element 3",
        ),
        (
            "{{ parseInt .Name 16 8 }}",
            "failed: template: parseInt: \"host.example.\" is not a number",
        ),
        (
            "{{ parseInt \"256\" 10 8 }}",
            "failed: template: parseInt: 256 has more than 8 bits",
        ),
        (
            "{{ .Name.X }}",
            "failed: template: there is no field X: this is not a struct",
        ),
        ("{{ .Question.X }}", "failed: template: there is no field X"),
        (
            "{{ eq .Name 1 }}",
            "failed: template: these values cannot be compared",
        ),
        (
            "{{ \"x\" | .Name }}",
            "failed: template: only a function can follow |",
        ),
    ] {
        assert_eq!(filled(source), want, "{source}");
    }
}
