package apitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A patchStep is one operation of a JSON patch, RFC 6902.
type patchStep struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from"`
	Value json.RawMessage `json:"value"`
}

// applyJSONPatch applies the steps of a JSON patch. A step that fails is the error 422, as from the
// API server.
func applyJSONPatch(object, patch []byte) ([]byte, error) {
	var document any
	if err := decodeExactly(object, &document); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var steps []patchStep
	if err := json.Unmarshal(patch, &steps); err != nil {
		return nil, apierrors.NewBadRequest("decode the patch: " + err.Error())
	}
	for i, step := range steps {
		var err error
		if document, err = step.apply(document); err != nil {
			return nil, apierrors.NewGenericServerResponse(422, "patch", schema.GroupResource{}, "", fmt.Sprintf("step %d of the patch: %s %s: %v", i, step.Op, step.Path, err), 0, false)
		}
	}
	return json.Marshal(document)
}

// decodeExactly decodes one JSON value, and keeps its numbers as text.
func decodeExactly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("more than one value")
	}
	return nil
}

var (
	errNoSuchPath = errors.New("the path does not exist")
	errTestFailed = errors.New("the test failed")
)

// apply returns the document after the step. It may change the document in place.
func (s patchStep) apply(document any) (any, error) {
	path, err := parsePointer(s.Path)
	if err != nil {
		return nil, err
	}
	switch s.Op {
	case "remove":
		return removeAt(document, path)
	case "move", "copy":
		return s.transfer(document, path)
	case "add", "replace", "test":
	default:
		return nil, errors.New("unknown operation")
	}
	var value any
	if err := decodeExactly(s.Value, &value); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	switch s.Op {
	case "add":
		return addAt(document, path, value)
	case "replace":
		if _, err := valueAt(document, path); err != nil {
			return nil, err
		}
		return setAt(document, path, value)
	}
	found, err := valueAt(document, path)
	if err == nil && !reflect.DeepEqual(found, value) {
		err = errTestFailed
	}
	return document, err
}

// transfer moves or copies a value to a path.
func (s patchStep) transfer(document any, path []string) (any, error) {
	from, err := parsePointer(s.From)
	if err != nil {
		return nil, err
	}
	value, err := valueAt(document, from)
	if err != nil {
		return nil, err
	}
	if s.Op == "copy" {
		return addAt(document, path, cloneJSON(value))
	}
	if len(path) > len(from) && slices.Equal(path[:len(from)], from) {
		return nil, errors.New("a value cannot move into itself")
	}
	if document, err = removeAt(document, from); err != nil {
		return nil, err
	}
	return addAt(document, path, value)
}

// parsePointer parses a JSON pointer, RFC 6901.
func parsePointer(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' {
		return nil, errors.New("a path must begin with /")
	}
	parts := strings.Split(pointer[1:], "/")
	for i, part := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
	}
	return parts, nil
}

// index parses an index of a list, which must be below limit. A limit of the length plus one
// permits the end of the list.
func index(part string, limit int) (int, error) {
	i, err := strconv.Atoi(part)
	if err != nil || i < 0 || i >= limit || strconv.Itoa(i) != part {
		return 0, errNoSuchPath
	}
	return i, nil
}

func valueAt(document any, path []string) (any, error) {
	for _, part := range path {
		switch container := document.(type) {
		case map[string]any:
			value, ok := container[part]
			if !ok {
				return nil, errNoSuchPath
			}
			document = value
		case []any:
			i, err := index(part, len(container))
			if err != nil {
				return nil, err
			}
			document = container[i]
		default:
			return nil, errNoSuchPath
		}
	}
	return document, nil
}

// edit replaces the container that holds the last part of a path by the result of change, and
// returns the document.
func edit(document any, path []string, change func(container any, part string) (any, error)) (any, error) {
	if len(path) == 1 {
		return change(document, path[0])
	}
	child, err := valueAt(document, path[:1])
	if err != nil {
		return nil, err
	}
	if child, err = edit(child, path[1:], change); err != nil {
		return nil, err
	}
	return setAt(document, path[:1], child)
}

// setAt replaces an existing value.
func setAt(document any, path []string, value any) (any, error) {
	return writeAt(document, path, value, func(list []any, part string) ([]any, error) {
		i, err := index(part, len(list))
		if err == nil {
			list[i] = value
		}
		return list, err
	})
}

// addAt sets a field of an object, or inserts an element into a list.
func addAt(document any, path []string, value any) (any, error) {
	return writeAt(document, path, value, func(list []any, part string) ([]any, error) {
		if part == "-" {
			return append(list, value), nil
		}
		i, err := index(part, len(list)+1)
		if err != nil {
			return nil, err
		}
		return slices.Insert(list, i, value), nil
	})
}

// writeAt writes a value: the document itself for an empty path, a field of an object, or, by
// toList, an element of a list.
func writeAt(document any, path []string, value any, toList func(list []any, part string) ([]any, error)) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	return edit(document, path, func(container any, part string) (any, error) {
		switch container := container.(type) {
		case map[string]any:
			container[part] = value
			return container, nil
		case []any:
			return toList(container, part)
		}
		return nil, errNoSuchPath
	})
}

func removeAt(document any, path []string) (any, error) {
	if len(path) == 0 {
		return nil, nil
	}
	return edit(document, path, func(container any, part string) (any, error) {
		if _, err := valueAt(container, []string{part}); err != nil {
			return nil, err
		}
		switch container := container.(type) {
		case map[string]any:
			delete(container, part)
			return container, nil
		case []any:
			i, err := index(part, len(container))
			if err != nil {
				return nil, err
			}
			return slices.Delete(container, i, i+1), nil
		}
		return nil, errNoSuchPath
	})
}

func cloneJSON(value any) any {
	switch value := value.(type) {
	case map[string]any:
		clone := make(map[string]any, len(value))
		for name, field := range value {
			clone[name] = cloneJSON(field)
		}
		return clone
	case []any:
		clone := make([]any, len(value))
		for i, element := range value {
			clone[i] = cloneJSON(element)
		}
		return clone
	}
	return value
}
