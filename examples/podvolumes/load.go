package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

//go:embed pod.yaml
var builtin []byte

const builtinName = "pod.yaml"

// load reads and understands the manifest.
func load(file string, stdin io.Reader) ([]use, *manifest, error) {
	name, text, err := read(file, stdin)
	if err != nil {
		return nil, nil, fmt.Errorf("-f: %w", err)
	}
	m, err := parse(name, text)
	if err != nil {
		return nil, nil, err
	}
	uses, err := m.uses()
	return uses, m, err
}

func read(file string, stdin io.Reader) (name string, text []byte, err error) {
	switch file {
	case "":
		return builtinName, builtin, nil
	case "-":
		text, err = readAll(stdin)
		return "standard input", text, err
	}
	f, err := os.Open(file)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = f.Close() }()
	text, err = readAll(f)
	return file, text, err
}

func readAll(r io.Reader) ([]byte, error) {
	const limit = 1 << 20
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && len(text) > limit {
		err = fmt.Errorf("the manifest has more than %d bytes", limit)
	}
	return text, err
}

// builtinDisks returns the paths of the built-in manifest's local volumes.
func builtinDisks(b base) []string {
	m, err := parse(builtinName, builtin)
	if err != nil {
		return nil // it is tested to be right
	}
	m.place(b)
	var paths []string
	for _, d := range m.volumes {
		paths = append(paths, d.object.Spec.Local.Path)
	}
	return paths
}

// place puts the volumes of the built-in manifest below the base.
func (m *manifest) place(b base) {
	for _, d := range m.volumes {
		local := d.object.Spec.Local
		local.Path = filepath.FromSlash(strings.Replace(local.Path, "${ROOT}", string(b), 1))
	}
}
