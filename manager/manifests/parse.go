package manifests

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/yamldoc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// A Document is one object of a manifest, and its position.
type Document struct {
	File  string // the argument of [Parse]
	Index int    // of the document in the file, from 1; the objects of a List share one
	Name  string // "Pod/web"
	// Object is a *v1.Pod, *v1.PersistentVolumeClaim, *v1.PersistentVolume, *v1.ConfigMap or
	// *v1.Secret.
	Object metav1.Object
}

// Problem returns an error that names the document.
func (d Document) Problem(err error) Problem {
	return Problem{File: d.File, Document: d.Index, Object: d.Name, Err: err}
}

// maxDocuments limits the documents, and the objects, of a file.
const maxDocuments = 1000

var errNoObject = errors.New("the file has no object; remove the file to remove its pods")

// parse is Parse for a [Source], which sets up the volumes that containers mount. It refuses
// a file without objects, as the file may be half-written.
func parse(file string, text []byte) ([]Document, error) {
	all, err := Parse(file, text)
	if err == nil && len(all) == 0 {
		err = Problem{File: file, Err: errNoObject}
	}
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if pod, ok := d.Object.(*v1.Pod); ok && len(pod.Spec.Containers) == 0 {
			return nil, d.Problem(field.Required(field.NewPath("spec", "containers"), "the volumeMounts of containers select the volumes to set up"))
		}
	}
	return all, nil
}

// Parse returns the objects of a manifest: of YAML documents, of JSON, or of a List. They
// have the API server's defaults, also the namespace "default"; a pod without a UID keeps
// none. Documents of blanks and comments are skipped. File is the name of the manifest in
// errors; the caller limits the size of text.
//
// The error is a [Problem] that names the document, and wraps a *field.Error if one field is
// wrong. An error about a Secret contains no value of it.
func Parse(file string, text []byte) ([]Document, error) {
	var all []Document
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(yamldoc.Terminated(text))))
	for index := 1; ; index++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		d := Document{File: file, Index: index}
		err = yamldoc.BadSeparator(err)
		if err == nil && index > maxDocuments {
			err = fmt.Errorf("a file must have at most %d documents", maxDocuments)
		}
		if err == nil {
			err = d.read(text)
		}
		if err != nil {
			return nil, d.Problem(err)
		}
		if list, ok := d.Object.(*list); ok {
			items, err := d.readItems(list.Items)
			if err != nil {
				return nil, err
			}
			all = append(all, items...)
		} else if d.Object != nil {
			all = append(all, d)
		}
		if len(all) > maxDocuments {
			return nil, d.Problem(fmt.Errorf("a file must have at most %d objects", maxDocuments))
		}
	}
	return all, nil
}

// scheme has the kinds of the API's first group.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	_ = v1.AddToScheme(s) // cannot fail for these kinds
	return s
}()

// decoder decodes the kinds of the API's core group, and refuses unknown fields.
var decoder = func() runtime.Decoder {
	known := serializer.NewCodecFactory(scheme, serializer.EnableStrict).SupportedMediaTypes()
	info, _ := runtime.SerializerInfoForMediaType(known, runtime.ContentTypeYAML)
	return info.Serializer
}()

// read decodes the document. For a document of blanks and comments d.Object stays nil.
func (d *Document) read(text []byte) error {
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
	d.Name = brief.Name(kind) + "/" + brief.Name(name)
	if err := yamldoc.CheckQuantities(content); err != nil {
		return err
	}
	object, err := decode(version, kind, content, text)
	if err != nil {
		return err
	}
	d.Object = object
	return complete(object)
}

// listKind is the kind of a document with other objects, as kubectl get -o yaml prints them.
const listKind = "List"

// A list is a v1.List as a metav1.Object. Its metadata is ignored.
type list struct {
	metav1.ObjectMeta
	*v1.List
}

// readItems reads the objects of a list. The error is a [Problem].
func (d Document) readItems(items []runtime.RawExtension) (all []Document, err error) {
	for i, item := range items {
		one := Document{File: d.File, Index: d.Index}
		err := one.read(item.Raw)
		if _, ok := one.Object.(*list); err == nil && (ok || one.Object == nil) {
			err = field.NotSupported(field.NewPath("kind"), listKind, kinds)
		}
		if err != nil {
			return nil, one.Problem(fmt.Errorf("items[%d]: %w", i, err))
		}
		all = append(all, one)
	}
	return all, nil
}

// kinds are the kinds that a manifest may contain.
var kinds = []string{"Pod", "PersistentVolumeClaim", "PersistentVolume", "ConfigMap", "Secret"}

func decode(version, kind string, content any, text []byte) (metav1.Object, error) {
	if version != "v1" {
		return nil, field.NotSupported(field.NewPath("apiVersion"), brief.Name(version), []string{"v1"})
	}
	if !slices.Contains(kinds, kind) && kind != listKind {
		return nil, field.NotSupported(field.NewPath("kind"), brief.Name(kind), append(slices.Clone(kinds), listKind))
	}
	decoded, _, err := decoder.Decode(text, nil, nil)
	if err != nil {
		return nil, cmp.Or(badQuantity(kind, content), withoutValues(kind, content, err))
	}
	if l, ok := decoded.(*v1.List); ok {
		return &list{List: l}, nil
	}
	object, ok := decoded.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("a %T is not supported", decoded)
	}
	return object, nil
}

// badQuantity returns an error that names a quantity which does not parse, or nil.
func badQuantity(kind string, content any) error {
	object, err := scheme.New(v1.SchemeGroupVersion.WithKind(kind))
	if err != nil {
		return nil
	}
	return yamldoc.BadQuantity(content, object)
}

// withoutValues removes the values of secrets from an error: the decoder's text may contain
// a part of one. For a value of the wrong type it returns an error with the field.
func withoutValues(kind string, content any, err error) error {
	isSecret := kind == "Secret" || kind == listKind // a list may contain secrets
	if mismatch := (*json.UnmarshalTypeError)(nil); errors.As(err, &mismatch) {
		return yamldoc.BadType(mismatch, content, isSecret)
	}
	if isSecret {
		return fmt.Errorf("not a %s: an unknown field, a field given twice, or data that is not in base64", kind)
	}
	return err
}
