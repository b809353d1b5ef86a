package manifests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/volumekit/volumekit/internal/yamldoc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// A document is an object, and where it stands.
type document struct {
	file   string
	index  int
	name   string // "Pod/web"
	object metav1.Object
}

func (d document) problem(err error) Problem {
	return Problem{File: d.file, Document: d.index, Object: d.name, Err: err}
}

// maxDocuments is how many a file may have.
const maxDocuments = 1000

var errNoObject = errors.New("the file holds no object; to remove pods, remove it")

// parse reads the documents of a file. The error is a [Problem].
func parse(file string, text []byte) ([]document, error) {
	var all []document
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(yamldoc.Terminated(text))))
	for index := 1; ; index++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		d := document{file: file, index: index}
		err = yamldoc.BadSeparator(err)
		if err == nil && index > maxDocuments {
			err = fmt.Errorf("a file has at most %d documents", maxDocuments)
		}
		if err == nil {
			err = d.read(text)
		}
		if err != nil {
			return nil, d.problem(err)
		}
		if d.object != nil {
			all = append(all, d)
		}
	}
	if len(all) == 0 {
		return nil, Problem{File: file, Err: errNoObject}
	}
	return all, nil
}

// decoder knows the fields of all kinds of the API's first group, and no others.
var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	_ = v1.AddToScheme(scheme) // fails for none of its kinds
	known := serializer.NewCodecFactory(scheme, serializer.EnableStrict).SupportedMediaTypes()
	info, _ := runtime.SerializerInfoForMediaType(known, runtime.ContentTypeYAML)
	return info.Serializer
}()

// read leaves the object away for a document of blanks and comments.
func (d *document) read(text []byte) error {
	var content any
	if err := yaml.Unmarshal(text, &content); err != nil {
		return yamldoc.BadYAML(err)
	}
	if content == nil {
		return nil
	}
	fields, ok := content.(map[string]any)
	if !ok {
		return yamldoc.NotObject(content)
	}
	version, _ := fields["apiVersion"].(string)
	kind, _ := fields["kind"].(string)
	metadata, _ := fields["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	d.name = short(kind) + "/" + short(name)
	if err := yamldoc.CheckQuantities(content); err != nil {
		return err
	}
	object, err := decode(version, kind, text)
	if err != nil {
		return err
	}
	d.object = object
	return complete(object)
}

// kinds are the ones that a manifest may have.
var kinds = []string{"Pod", "PersistentVolumeClaim", "PersistentVolume", "ConfigMap", "Secret"}

func decode(version, kind string, text []byte) (metav1.Object, error) {
	if version != "v1" {
		return nil, field.NotSupported(field.NewPath("apiVersion"), short(version), []string{"v1"})
	}
	if !slices.Contains(kinds, kind) {
		return nil, field.NotSupported(field.NewPath("kind"), short(kind), kinds)
	}
	decoded, _, err := decoder.Decode(text, nil, nil)
	if err != nil {
		return nil, withoutValues(kind, err)
	}
	object, ok := decoded.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("a %T is of no use here", decoded)
	}
	return object, nil
}

// withoutValues says which field has a value of the wrong type. Of a secret it says no
// more than that: the decoder's own words may hold a part of it.
func withoutValues(kind string, err error) error {
	if mismatch := (*json.UnmarshalTypeError)(nil); errors.As(err, &mismatch) {
		return field.TypeInvalid(field.NewPath(mismatch.Field), field.OmitValueType{}, "not a "+mismatch.Value+" but a "+mismatch.Type.Kind().String())
	}
	if kind == "Secret" {
		return errors.New("not a Secret: an unknown field, one given twice, or data that is not in base64")
	}
	return err
}
