package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/content"
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
	m.setNamespaces()
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
	for _, path := range m.paths() {
		paths = append(paths, *path)
	}
	return paths
}

// place puts the volumes of the built-in manifest below the base.
func (m *manifest) place(b base) {
	for _, path := range m.paths() {
		*path = filepath.FromSlash(strings.Replace(*path, "${ROOT}", string(b), 1))
	}
}

// paths returns those of this node that the manifest names.
func (m *manifest) paths() []*string {
	var paths []*string
	for _, d := range m.volumes {
		if local := d.object.Spec.Local; local != nil {
			paths = append(paths, &local.Path)
		}
	}
	for _, v := range m.pods[0].object.Spec.Volumes {
		if v.HostPath != nil {
			paths = append(paths, &v.HostPath.Path)
		}
	}
	return paths
}

// getter has what the manifest's volumes are to hold.
func (m *manifest) getter() *content.MapGetter {
	g := &content.MapGetter{}
	for _, d := range m.configMaps {
		g.SetConfigMap(d.object)
	}
	for _, d := range m.secrets {
		g.SetSecret(d.object)
	}
	return g
}
