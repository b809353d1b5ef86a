package httpapi

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// A codec encodes and decodes the objects of all resources.
type codec struct {
	runtime.NegotiatedSerializer
	parameters runtime.ParameterCodec
}

// newCodec returns the codec, which all handlers share.
var newCodec = sync.OnceValue(func() codec {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(v1.AddToScheme, storagev1.AddToScheme, storagev1beta1.AddToScheme,
		certificatesv1alpha1.AddToScheme, authenticationv1.AddToScheme, metav1.AddMetaToScheme)
	utilruntime.Must(builder.AddToScheme(scheme)) // fails for defects of this function alone
	scheme.AddKnownTypes(metav1.SchemeGroupVersion, &metav1.DeleteOptions{})
	return codec{serializer.NewCodecFactory(scheme).WithoutConversion(), runtime.NewParameterCodec(scheme)}
})

// A format is the encoding of an answer.
type format struct {
	runtime.SerializerInfo
	partial bool // the metadata of objects alone
}

// formatOf returns the first encoding of the header Accept that the server has, and has for streams if the answer is
// one. A clause for a table is no encoding that it has.
func (c codec) formatOf(header http.Header, isStream bool) (format, error) {
	accept := strings.Join(header.Values("Accept"), ",")
	if accept == "" {
		accept = runtime.ContentTypeJSON
	}
	for clause := range strings.SplitSeq(accept, ",") {
		mediaType, parameters, err := mime.ParseMediaType(clause)
		if err != nil {
			continue
		}
		if mediaType == "*/*" || mediaType == "application/*" {
			mediaType = runtime.ContentTypeJSON
		}
		as := parameters["as"]
		partial := (as == "PartialObjectMetadata" || as == "PartialObjectMetadataList") &&
			parameters["g"] == metav1.GroupName && parameters["v"] == metav1.SchemeGroupVersion.Version
		info, ok := runtime.SerializerInfoForMediaType(c.SupportedMediaTypes(), mediaType)
		if ok && (as == "" || partial) && (!isStream || info.StreamSerializer != nil) {
			return format{info, partial}, nil
		}
	}
	return format{}, apierrors.NewGenericServerResponse(http.StatusNotAcceptable, "get", schema.GroupResource{}, "",
		"the server has no encoding of the header Accept", 0, true)
}

// decode decodes the body of a request. An object without a kind is of the kind that the path means. A strict decoding
// refuses unknown and repeated fields.
func (c codec) decode(body []byte, contentType string, gvk schema.GroupVersionKind, isStrict bool) (runtime.Object, error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		mediaType = runtime.ContentTypeJSON
	}
	info, ok := runtime.SerializerInfoForMediaType(c.SupportedMediaTypes(), mediaType)
	if !ok {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schema.GroupResource{}, "",
			fmt.Sprintf("the content type %q is not supported", mediaType), 0, true)
	}
	decoder := info.Serializer
	if isStrict && info.StrictSerializer != nil { // protobuf has no such fields
		decoder = info.StrictSerializer
	}
	object, _, err := decoder.Decode(body, &gvk, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest("decode the body: " + err.Error())
	}
	return object, nil
}

// encode encodes an object of a version in a format.
func (c codec) encode(object runtime.Object, f format, version schema.GroupVersion) ([]byte, error) {
	if f.partial {
		if part := metadataOf(object); part != nil {
			object, version = part, metav1.SchemeGroupVersion
		}
	}
	var text bytes.Buffer
	if err := c.EncoderForVersion(f.Serializer, version).Encode(object, &text); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// metadataOf returns the metadata of an object or of the objects of a list, and nil for an answer that is
// neither, such as a status.
func metadataOf(object runtime.Object) runtime.Object {
	if o, ok := object.(metav1.ObjectMetaAccessor); ok {
		return partOf(o)
	}
	if !meta.IsListType(object) {
		return nil
	}
	parts := &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{}}
	if list, err := meta.ListAccessor(object); err == nil {
		parts.ListMeta = metav1.ListMeta{ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue(), RemainingItemCount: list.GetRemainingItemCount()}
	}
	_ = meta.EachListItem(object, func(item runtime.Object) error { // the function returns no error
		if o, ok := item.(metav1.ObjectMetaAccessor); ok {
			parts.Items = append(parts.Items, *partOf(o))
		}
		return nil
	})
	return parts
}

func partOf(object metav1.ObjectMetaAccessor) *metav1.PartialObjectMetadata {
	part := meta.AsPartialObjectMetadata(object.GetObjectMeta())
	part.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	return part
}
