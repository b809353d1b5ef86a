package httpapi

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
)

// stream answers with the events of a watch until it ends or the client is gone.
func (r response) stream(events <-chan watch.Event, f format, version schema.GroupVersion) {
	r.w.Header().Set("Content-Type", f.MediaType+";stream=watch")
	r.w.WriteHeader(http.StatusOK)
	flusher := http.NewResponseController(r.w)
	encoder := streaming.NewEncoder(f.StreamSerializer.NewFrameWriter(r.w), r.codec.EncoderForVersion(f.StreamSerializer.Serializer, version))
	for {
		if err := flusher.Flush(); err != nil {
			return
		}
		event, ok := <-events
		if !ok {
			return
		}
		text, err := r.codec.encode(event.Object, f, version)
		if err != nil {
			return
		}
		if err := encoder.Encode(&metav1.WatchEvent{Type: string(event.Type), Object: runtime.RawExtension{Raw: text}}); err != nil {
			return
		}
	}
}
