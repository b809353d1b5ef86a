package manifests_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/manager/manifests"
)

const web = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: web, volumeMounts: [{name: cache, mountPath: /cache}]}]
  volumes: [{name: cache, emptyDir: {}}]
`

func ExampleSource() {
	dir, err := os.MkdirTemp("", "manifests-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(web), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	source, err := manifests.New(context.Background(), manifests.Config{Dir: dir, Node: "node-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	pods, err := source.Pods(context.Background())
	fmt.Println(len(pods), pods[0].Namespace, pods[0].Name, err)
	// Output: 1 default web <nil>
}

func ExampleProblem() {
	dir, err := os.MkdirTemp("", "manifests-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	broken := []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: web_1}\n")
	if err := os.WriteFile(filepath.Join(dir, "web.yaml"), broken, 0o600); err != nil {
		fmt.Println(err)
		return
	}
	source, err := manifests.New(context.Background(), manifests.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = source.Pods(context.Background())
	for _, p := range source.Problems() {
		fmt.Println(p.File, p.Document, p.Object)
	}
	// Output: web.yaml 1 Pod/web_1
}

// The last valid content of a file that is invalid by now survives the end of the program.
func ExampleConfig() {
	dir, err := os.MkdirTemp("", "manifests-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	config := manifests.Config{
		Dir: filepath.Join(dir, "manifests"), Keep: filepath.Join(dir, "kept"), Node: "node-1",
		Report: func(p manifests.Problem) { fmt.Println("a problem with", p.File) },
	}
	_ = os.Mkdir(config.Dir, 0o700)
	for _, text := range []string{web, "apiVersion: ["} { // half-written
		_ = os.WriteFile(filepath.Join(config.Dir, "web.yaml"), []byte(text), 0o600)
		source, err := manifests.New(context.Background(), config) // a program that starts
		if err != nil {
			fmt.Println(err)
			return
		}
		pods, err := source.Pods(context.Background())
		fmt.Println(len(pods), pods[0].Name, err)
	}
	// Output:
	// 1 web <nil>
	// a problem with web.yaml
	// 1 web <nil>
}

// A program without a manager resolves the volumes of one pod by itself.
func ExampleVolumes() {
	documents, err := manifests.Parse("web.yaml", []byte(web+`
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	volumes, err := manifests.Volumes(documents[0], documents)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range volumes {
		fmt.Println(v.Name, v.Spec.Volume.EmptyDir != nil)
		fmt.Println(v.Problem(errors.New("no space")))
	}
	// Output:
	// cache true
	// web.yaml, document 1 (Pod/web): no space
}
