package apitest

import (
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A part is the part of an object that an update replaces.
type part string

const (
	partMain   part = ""
	partStatus part = "status"
)

var metadataPath = field.NewPath("metadata")

// create stores a copy of an object and returns the stored object, which the caller must not
// change.
func (c *Cluster) create(k *kind, namespace string, object api.Object, options metav1.CreateOptions) (api.Object, error) {
	s := c.server
	if errs := metav1validation.ValidateCreateOptions(&options); len(errs) > 0 {
		return nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("CreateOptions").GroupKind(), "", errs)
	}
	object, err := k.transmit(object)
	if err != nil {
		return nil, err
	}
	if err := k.place(object, namespace); err != nil {
		return nil, err
	}
	if object.GetResourceVersion() != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	t := s.tables[k]
	if err := c.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if err := s.checkNamespace(k, object); err != nil {
		return nil, err
	}
	if object.GetName() == "" && object.GetGenerateName() != "" {
		object.SetName(s.generateName(t, object.GetNamespace(), object.GetGenerateName()))
	}
	now := metav1.Now().Rfc3339Copy()
	object.SetDeletionTimestamp(nil)
	object.SetDeletionGracePeriodSeconds(nil)
	object.SetManagedFields(nil)
	object.SetSelfLink("")
	object.SetCreationTimestamp(now)
	k.prepareCreate(object)
	k.setDefaults(object)
	if k.complete != nil {
		k.complete(s, object)
	}
	errs := validation.ValidateObjectMetaAccessor(object, k.namespaced, k.validName(object), metadataPath)
	if k.validate != nil {
		errs = append(errs, k.validate(object)...)
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(k.group, object.GetName(), errs)
	}
	if _, exists := t.objects[api.KeyOf(object)]; exists {
		return nil, apierrors.NewAlreadyExists(k.resource, object.GetName())
	}
	if len(options.DryRun) > 0 {
		object.SetUID(s.newUID())
		return object, nil
	}
	version := s.nextVersion()
	object.SetUID(s.newUID())
	object.SetResourceVersion(formatVersion(version))
	t.apply(&change{version: version, new: object})
	return object, nil
}

// place sets an empty namespace of an object to that of the request, and refuses another namespace.
func (k *kind) place(object api.Object, namespace string) error {
	if !k.namespaced {
		namespace = ""
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(namespace)
	}
	if object.GetNamespace() != namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the provided object does not match the namespace sent on the request: %q, %q",
			object.GetNamespace(), namespace))
	}
	return nil
}

// checkNamespace refuses new objects in a namespace that is missing or terminating.
func (s *Server) checkNamespace(k *kind, object api.Object) error {
	if !k.namespaced {
		return nil
	}
	name := object.GetNamespace()
	stored, ok := s.tables[namespaceKind].objects[api.Key{Name: name}]
	if !ok {
		return namespaceKind.notFound(name)
	}
	if stored.GetDeletionTimestamp() == nil {
		return nil
	}
	err := apierrors.NewForbidden(k.resource, object.GetName(), fmt.Errorf("unable to create new content in namespace %s because it is being terminated", name))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: v1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", name), Field: "metadata.namespace",
	})
	return err
}

// update replaces a part of an object.
func (c *Cluster) update(k *kind, namespace string, p part, object api.Object, options metav1.UpdateOptions) (api.Object, error) {
	s := c.server
	if errs := metav1validation.ValidateUpdateOptions(&options); len(errs) > 0 {
		return nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("UpdateOptions").GroupKind(), "", errs)
	}
	object, err := k.transmit(object)
	if err != nil {
		return nil, err
	}
	if err := k.place(object, namespace); err != nil {
		return nil, err
	}
	if err := c.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if old, ok := s.tables[k].objects[api.KeyOf(object)]; ok && object.GetUID() != "" && object.GetUID() != old.GetUID() {
		return nil, k.conflict(object.GetName(), fmt.Errorf("precondition failed: UID in precondition: %v, UID in object meta: %v",
			object.GetUID(), old.GetUID()))
	}
	return s.replace(k, p, object, len(options.DryRun) > 0)
}

// replace replaces a part of a stored object by that of object, and returns the result. It changes
// and may store object. It requires s.mu.
func (s *Server) replace(k *kind, p part, object api.Object, dryRun bool) (api.Object, error) {
	name := object.GetName()
	old, ok := s.tables[k].objects[api.KeyOf(object)]
	if !ok {
		return nil, k.notFound(name)
	}
	switch object.GetResourceVersion() {
	case old.GetResourceVersion():
	case "", "0":
		if k.conditional {
			return nil, apierrors.NewInvalid(k.group, name, field.ErrorList{
				field.Invalid(metadataPath.Child("resourceVersion"), 0, "must be specified for an update")})
		}
		object.SetResourceVersion(old.GetResourceVersion())
	default:
		return nil, k.conflict(name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	k.keepMetadata(object, old)
	if p == partStatus {
		k.prepareStatus(object, old)
	} else {
		k.prepareUpdate(object, old)
	}
	k.keepDeletion(object, old)
	k.setDefaults(object)
	errs := validation.ValidateObjectMetaAccessorUpdate(object, old, metadataPath)
	if p == partMain && k.validate != nil {
		errs = append(errs, k.validate(object)...)
	}
	if p == partMain && k.validateUpdate != nil {
		errs = append(errs, k.validateUpdate(object, old)...)
	}
	if p == partStatus && k.validateStatus != nil {
		errs = append(errs, k.validateStatus(object)...)
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(k.group, name, errs)
	}
	if p == partMain && k.admit != nil {
		if err := k.admit(s, object, old); err != nil {
			return nil, err
		}
	}
	if dryRun || equality.Semantic.DeepEqual(object, old) {
		return object, nil // the API server stores no update without a change
	}
	if k.ended(object) {
		s.remove(k, old)
		return object, nil
	}
	return s.store(k, old, object), nil
}

// keepMetadata reverts changes of metadata that only the server sets.
func (k *kind) keepMetadata(object, old api.Object) {
	if object.GetUID() == "" {
		object.SetUID(old.GetUID())
	}
	object.SetCreationTimestamp(old.GetCreationTimestamp())
	object.SetGeneration(old.GetGeneration())
	object.SetManagedFields(nil)
	object.SetSelfLink("")
}

// keepDeletion reverts changes of the deletion timestamp of an object in deletion, and a removal of
// its grace period.
func (k *kind) keepDeletion(object, old api.Object) {
	if old.GetDeletionTimestamp() != nil {
		object.SetDeletionTimestamp(old.GetDeletionTimestamp())
	}
	if object.GetDeletionGracePeriodSeconds() == nil {
		object.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
}

// ended reports whether an object in deletion has no finalizer, no grace period, and no rule of its
// kind that keeps it.
func (k *kind) ended(object api.Object) bool {
	grace := object.GetDeletionGracePeriodSeconds()
	return object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 && (grace == nil || *grace == 0) &&
		(k.keeps == nil || !k.keeps(object))
}

// store replaces a stored object. It requires s.mu.
func (s *Server) store(k *kind, old, object api.Object) api.Object {
	version := s.nextVersion()
	object.SetResourceVersion(formatVersion(version))
	s.tables[k].apply(&change{version: version, old: old, new: object})
	return object
}

// remove removes a stored object. It requires s.mu.
func (s *Server) remove(k *kind, old api.Object) {
	s.tables[k].apply(&change{version: s.nextVersion(), old: old})
}

func copyOf(object api.Object) api.Object { return object.DeepCopyObject().(api.Object) }
