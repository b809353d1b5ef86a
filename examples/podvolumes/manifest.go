package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/volumekit/volumekit/internal/apidefaults"
	"github.com/volumekit/volumekit/internal/yamldoc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// A manifest is what the documents of a file say.
type manifest struct {
	name    string
	pods    []document[*v1.Pod]
	claims  []document[*v1.PersistentVolumeClaim]
	volumes []document[*v1.PersistentVolume]

	configMaps []document[*v1.ConfigMap]
	secrets    []document[*v1.Secret]
}

// A document is an object, and where it stands.
type document[T metav1.Object] struct {
	where  string // "pod.yaml, document 2 (PersistentVolume/disk-a)"
	object T
}

// parse reads the documents. Errors name the document.
func parse(name string, text []byte) (*manifest, error) {
	m := &manifest{name: name}
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(yamldoc.Terminated(text))))
	for index := 1; ; index++ {
		where := fmt.Sprintf("%s, document %d", name, index)
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return m, m.check()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, yamldoc.BadSeparator(err))
		}
		if err := m.add(where, text); err != nil {
			return nil, err
		}
	}
}

// decoder knows the fields of all kinds of the API's first group, and no others.
var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	_ = v1.AddToScheme(scheme) // fails for none of its kinds
	known := serializer.NewCodecFactory(scheme, serializer.EnableStrict).SupportedMediaTypes()
	info, _ := runtime.SerializerInfoForMediaType(known, runtime.ContentTypeYAML)
	return info.Serializer
}()

// add reads one document. One of blanks and comments is passed over.
func (m *manifest) add(where string, text []byte) error {
	var content any
	if err := yaml.Unmarshal(text, &content); err != nil {
		return fmt.Errorf("%s: %w", where, yamldoc.BadYAML(err))
	}
	if content == nil {
		return nil
	}
	fields, ok := content.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: %w", where, yamldoc.NotObject(content))
	}
	version, kind, name := identify(fields)
	where = fmt.Sprintf("%s (%s/%s)", where, short(kind), short(name))
	if err := yamldoc.CheckQuantities(content); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	object, err := decode(version, kind, text)
	if err == nil {
		err = m.keep(where, object)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", where, clearer(err, fields))
	}
	return nil
}

// identify says what a document is about, before it is known to be right.
func identify(document map[string]any) (version, kind, name string) {
	version, _ = document["apiVersion"].(string)
	kind, _ = document["kind"].(string)
	metadata, _ := document["metadata"].(map[string]any)
	name, _ = metadata["name"].(string)
	return version, kind, name
}

// kinds are the ones that a manifest may have.
var kinds = []string{"Pod", "PersistentVolumeClaim", "PersistentVolume", "ConfigMap", "Secret"}

func decode(version, kind string, text []byte) (runtime.Object, error) {
	if version != "v1" {
		return nil, field.NotSupported(field.NewPath("apiVersion"), short(version), []string{"v1"})
	}
	if !slices.Contains(kinds, kind) {
		return nil, field.NotSupported(field.NewPath("kind"), short(kind), kinds)
	}
	object, _, err := decoder.Decode(text, nil, nil)
	if err != nil && kind == "Secret" {
		return nil, errSecret
	}
	return object, err
}

// errSecret stands for what a decoder says of a secret, which may hold a part of it.
var errSecret = errors.New("not a Secret: a field that it does not have, or has twice, or data that is no base64")

// keep puts the object where it belongs, unless its names are no names.
func (m *manifest) keep(where string, object runtime.Object) error {
	switch object := object.(type) {
	case *v1.Pod:
		m.pods = append(m.pods, document[*v1.Pod]{where, object})
		apidefaults.Pod(object)
		return checkPod(object)
	case *v1.PersistentVolumeClaim:
		m.claims = append(m.claims, document[*v1.PersistentVolumeClaim]{where, object})
		return checkMeta(object)
	case *v1.ConfigMap:
		m.configMaps = append(m.configMaps, document[*v1.ConfigMap]{where, object})
		return checkMeta(object)
	case *v1.Secret:
		m.secrets = append(m.secrets, document[*v1.Secret]{where, object})
		return checkMeta(object)
	case *v1.PersistentVolume:
		m.volumes = append(m.volumes, document[*v1.PersistentVolume]{where, object})
		return checkClusterMeta(object)
	}
	return fmt.Errorf("a %T is of no use here", object)
}

// short keeps hostile text from filling a line.
func short(text string) string {
	const limit = 64
	if len(text) > limit {
		return text[:limit] + "..."
	}
	return text
}
