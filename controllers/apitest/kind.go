package apitest

import (
	"encoding/json"
	"reflect"

	"github.com/volumekit/volumekit/controllers/api"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A kind describes the objects of one kind and the rules of the API server for them. Functions
// may be nil. They must not change the old object.
type kind struct {
	resource   schema.GroupResource
	group      schema.GroupKind
	namespaced bool
	// conditional: an update needs a resourceVersion.
	conditional bool
	// status: the kind has a status subresource.
	status bool
	// index is the field by which lists and watches are indexed, besides the name. "": none.
	index  string
	fields map[string]func(api.Object) string
	empty  func() api.Object

	// validName returns the rule for the name of an object.
	validName func(object api.Object) validation.ValidateNameFunc

	setDefaults    func(object api.Object)
	prepareCreate  func(object api.Object)
	prepareUpdate  func(object, old api.Object)
	prepareStatus  func(object, old api.Object)
	validate       func(object api.Object) field.ErrorList
	validateUpdate func(object, old api.Object) field.ErrorList
	validateStatus func(object api.Object) field.ErrorList
	// complete sets the fields of a new object that depend on other objects. s.mu is held.
	complete func(s *Server, object api.Object)
	// admit refuses an update that other objects forbid. s.mu is held.
	admit func(s *Server, object, old api.Object) error
	// keeps reports whether the object outlives the removal of its finalizers.
	keeps func(object api.Object) bool
}

// rules are the parts of a kind that depend on the type of its objects.
type rules[O api.Object] struct {
	fields         map[string]func(O) string
	validName      func(O) validation.ValidateNameFunc
	setDefaults    func(O)
	prepareCreate  func(O)
	prepareUpdate  func(object, old O)
	prepareStatus  func(object, old O)
	validate       func(O) field.ErrorList
	validateUpdate func(object, old O) field.ErrorList
	validateStatus func(O) field.ErrorList
	complete       func(s *Server, object O)
	admit          func(s *Server, object, old O) error
	keeps          func(O) bool
}

// kinds has the kinds of the server. newKind appends to it.
var kinds []*kind

// newKind completes k with the rules, registers it in kinds, and returns it.
func newKind[O api.Object](k kind, r rules[O]) *kind {
	t := reflect.TypeFor[O]().Elem()
	k.group = schema.GroupKind{Group: k.resource.Group, Kind: t.Name()}
	k.empty = func() api.Object { return reflect.New(t).Interface().(O) }
	k.fields = map[string]func(api.Object) string{"metadata.name": func(o api.Object) string { return o.GetName() }}
	if k.namespaced {
		k.fields["metadata.namespace"] = func(o api.Object) string { return o.GetNamespace() }
	}
	for name, value := range r.fields {
		k.fields[name] = func(o api.Object) string { return value(o.(O)) }
	}
	k.validName = func(api.Object) validation.ValidateNameFunc { return validation.NameIsDNSSubdomain }
	if r.validName != nil {
		k.validName = func(o api.Object) validation.ValidateNameFunc { return r.validName(o.(O)) }
	}
	k.setDefaults, k.prepareCreate = ofOne(r.setDefaults), ofOne(r.prepareCreate)
	k.prepareUpdate, k.prepareStatus = ofTwo(r.prepareUpdate), ofTwo(r.prepareStatus)
	if r.validate != nil {
		k.validate = func(o api.Object) field.ErrorList { return r.validate(o.(O)) }
	}
	if r.validateUpdate != nil {
		k.validateUpdate = func(o, old api.Object) field.ErrorList { return r.validateUpdate(o.(O), old.(O)) }
	}
	if r.validateStatus != nil {
		k.validateStatus = func(o api.Object) field.ErrorList { return r.validateStatus(o.(O)) }
	}
	if r.complete != nil {
		k.complete = func(s *Server, o api.Object) { r.complete(s, o.(O)) }
	}
	if r.admit != nil {
		k.admit = func(s *Server, o, old api.Object) error { return r.admit(s, o.(O), old.(O)) }
	}
	if r.keeps != nil {
		k.keeps = func(o api.Object) bool { return r.keeps(o.(O)) }
	}
	kinds = append(kinds, &k)
	return &k
}

// ofOne adapts a typed function, which may be nil, to any object.
func ofOne[O api.Object](f func(O)) func(api.Object) {
	return func(o api.Object) {
		if f != nil {
			f(o.(O))
		}
	}
}

// ofTwo adapts a typed function of two objects, which may be nil, to any objects.
func ofTwo[O api.Object](f func(O, O)) func(api.Object, api.Object) {
	return func(o, old api.Object) {
		if f != nil {
			f(o.(O), old.(O))
		}
	}
}

// decode returns the object with the JSON text, without kind and version, as client-go's typed
// clients do.
func (k *kind) decode(text []byte) (api.Object, error) {
	object := k.empty()
	if err := json.Unmarshal(text, object); err != nil {
		return nil, apierrors.NewBadRequest("decode " + k.group.Kind + ": " + err.Error())
	}
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return object, nil
}

// transmit returns the object as it arrives at the server: a copy in which quantities are
// canonical, times have whole seconds and empty lists are nil.
func (k *kind) transmit(object api.Object) (api.Object, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, apierrors.NewBadRequest("encode " + k.group.Kind + ": " + err.Error())
	}
	return k.decode(text)
}

func (k *kind) notFound(name string) error { return apierrors.NewNotFound(k.resource, name) }

func (k *kind) conflict(name string, cause error) error {
	return apierrors.NewConflict(k.resource, name, cause)
}
