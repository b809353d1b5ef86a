package apitest

import (
	"encoding/json"
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// A patchRequest is a patch of a part of an object.
type patchRequest struct {
	part      part
	patchType types.PatchType
	data      []byte
	options   metav1.PatchOptions
}

// patch applies a patch to an object.
func (c *Cluster) patch(k *kind, key api.Key, r patchRequest) (api.Object, error) {
	s := c.server
	if errs := metav1validation.ValidatePatchOptions(&r.options, r.patchType); len(errs) > 0 {
		return nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("PatchOptions").GroupKind(), "", errs)
	}
	if err := c.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	old, ok := s.tables[k].objects[key]
	if !ok {
		return nil, k.notFound(key.Name)
	}
	text, err := json.Marshal(old)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if text, err = k.applyPatch(text, r.patchType, r.data); err != nil {
		return nil, err
	}
	object, err := k.decode(text)
	if err != nil {
		return nil, err
	}
	if object.GetName() != key.Name || object.GetNamespace() != key.Namespace {
		return nil, apierrors.NewBadRequest("the name and the namespace of the object do not match those of the request")
	}
	return s.replace(k, r.part, object, len(r.options.DryRun) > 0)
}

// applyPatch returns the JSON text of an object with a patch applied.
func (k *kind) applyPatch(object []byte, patchType types.PatchType, patch []byte) ([]byte, error) {
	switch patchType {
	case types.MergePatchType:
		return applyMergePatch(object, patch)
	case types.StrategicMergePatchType:
		patched, err := strategicpatch.StrategicMergePatch(object, patch, k.empty())
		if err != nil {
			return nil, apierrors.NewBadRequest("apply the strategic merge patch: " + err.Error())
		}
		return patched, nil
	case types.JSONPatchType:
		return applyJSONPatch(object, patch)
	}
	return nil, apierrors.NewGenericServerResponse(415, "patch", k.resource, "", fmt.Sprintf("patch type %q is not supported", patchType), 0, false)
}

// applyMergePatch applies a JSON merge patch, RFC 7386.
func applyMergePatch(object, patch []byte) ([]byte, error) {
	var target, source any
	if err := decodeExactly(object, &target); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if err := decodeExactly(patch, &source); err != nil {
		return nil, apierrors.NewBadRequest("decode the patch: " + err.Error())
	}
	if _, ok := source.(map[string]any); !ok {
		return nil, apierrors.NewBadRequest("the patch is not a JSON object")
	}
	return json.Marshal(merge(target, source))
}

// merge returns target with a JSON merge patch applied. It may change target in place.
func merge(target, patch any) any {
	fields, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	merged, ok := target.(map[string]any)
	if !ok {
		merged = map[string]any{}
	}
	for name, value := range fields {
		if value == nil {
			delete(merged, name)
		} else {
			merged[name] = merge(merged[name], value)
		}
	}
	return merged
}

// partOf returns the part of an object that the subresources of a patch select, and the error 404
// for a subresource that the kind does not have.
func (k *kind) partOf(subresources []string) (part, error) {
	switch {
	case len(subresources) == 0:
		return partMain, nil
	case len(subresources) == 1 && subresources[0] == string(partStatus) && k.status:
		return partStatus, nil
	}
	return "", apierrors.NewGenericServerResponse(404, "patch", k.resource, "", "the server could not find the requested resource", 0, true)
}
