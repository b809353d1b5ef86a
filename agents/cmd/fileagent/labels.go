package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/agents/internal/cli"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// labels are a flag: KEY=VALUE, with commas.
type labels map[string]string

// String returns the labels in the flag's syntax.
func (l *labels) String() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(*l)) {
		all = append(all, key+"="+(*l)[key])
	}
	return strings.Join(all, ",")
}

// Set adds labels that Kubernetes accepts.
func (l *labels) Set(text string) error {
	var list cli.List
	if err := list.Set(text); err != nil {
		return err
	}
	if *l == nil {
		*l = labels{}
	}
	for _, label := range list {
		key, value, ok := strings.Cut(label, "=")
		problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
		if !ok || len(problems) > 0 {
			return fmt.Errorf("%q is no label: KEY=VALUE, such as topology.kubernetes.io/zone=a", label)
		}
		(*l)[key] = value
	}
	return nil
}

// of returns the labels of the node, with its name under kubernetes.io/hostname by default.
func (l labels) ofNode(node types.NodeName) map[string]string {
	all := map[string]string{v1.LabelHostname: string(node)}
	maps.Copy(all, l)
	return all
}
