package yamldoc

import (
	"errors"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// What is not understood may be a part of a secret: what is said of it has none of its
// words.

var errSeparator = errors.New("invalid separator of documents: a line that begins with --- holds no more than a comment")

// BadSeparator is for an error of the reader of documents; it leaves away what follows the dashes.
func BadSeparator(err error) error {
	if separator := (yaml.YAMLSyntaxError{}); errors.As(err, &separator) {
		return errSeparator
	}
	return err
}

var yamlLine = regexp.MustCompile(`^error converting YAML to JSON: yaml: (?:unmarshal errors:\n *)?line ([0-9]+): `)

// BadYAML is for an error of YAML; it leaves away all but the line.
func BadYAML(err error) error {
	if line := yamlLine.FindStringSubmatch(err.Error()); line != nil {
		return fmt.Errorf("not valid YAML, near line %s of the document", line[1])
	}
	return errors.New("not valid YAML")
}

// NotObject says what content is instead.
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
