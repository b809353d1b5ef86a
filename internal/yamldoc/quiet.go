package yamldoc

import (
	"errors"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// Text that does not parse may be a part of a secret: the errors below contain none of
// it.

var errSeparator = errors.New("invalid separator of documents: a line that begins with --- holds no more than a comment")

// BadSeparator replaces the document reader's error for an invalid separator, which would
// quote the rest of its line. It returns other errors unchanged.
func BadSeparator(err error) error {
	if separator := (yaml.YAMLSyntaxError{}); errors.As(err, &separator) {
		return errSeparator
	}
	return err
}

var yamlLine = regexp.MustCompile(`^error converting YAML to JSON: yaml: (?:unmarshal errors:\n *)?line ([0-9]+): `)

// BadYAML replaces an error of the YAML parser by one with the line number alone.
func BadYAML(err error) error {
	if line := yamlLine.FindStringSubmatch(err.Error()); line != nil {
		return fmt.Errorf("not valid YAML, near line %s of the document", line[1])
	}
	return errors.New("not valid YAML")
}

// NotObject returns an error that names the type of content, which is not an object.
func NotObject(content any) error {
	is := "a number"
	switch content.(type) {
	case string:
		is = "a string"
	case bool:
		is = "true or false"
	case []any:
		is = "a list"
	}
	return fmt.Errorf("not an object, but %s", is)
}
