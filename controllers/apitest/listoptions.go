package apitest

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	matchPath   = field.NewPath("resourceVersionMatch")
	initialPath = field.NewPath("sendInitialEvents")
)

func validateListOptions(options *metav1.ListOptions) (errs field.ErrorList) {
	if options.SendInitialEvents != nil {
		errs = append(errs, field.Forbidden(initialPath, "sendInitialEvents is forbidden for list"))
	}
	switch match := options.ResourceVersionMatch; {
	case match == "":
	case match != metav1.ResourceVersionMatchExact && match != metav1.ResourceVersionMatchNotOlderThan:
		errs = append(errs, field.NotSupported(matchPath, match, []string{
			string(metav1.ResourceVersionMatchExact), string(metav1.ResourceVersionMatchNotOlderThan), ""}))
	case options.ResourceVersion == "":
		errs = append(errs, field.Forbidden(matchPath, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
	case options.Continue != "":
		errs = append(errs, field.Forbidden(matchPath, "resourceVersionMatch is forbidden when continue is provided"))
	case match == metav1.ResourceVersionMatchExact && options.ResourceVersion == "0":
		errs = append(errs, field.Forbidden(matchPath, `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`))
	}
	return errs
}

func validateWatchOptions(options *metav1.ListOptions) (errs field.ErrorList) {
	initial, match := options.SendInitialEvents != nil, options.ResourceVersionMatch
	switch {
	case initial && match != metav1.ResourceVersionMatchNotOlderThan:
		errs = append(errs, field.Forbidden(matchPath, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
	case !initial && match != "":
		errs = append(errs, field.Forbidden(matchPath, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"))
	case match != "" && options.Continue != "":
		errs = append(errs, field.Forbidden(matchPath, "resourceVersionMatch is forbidden when continue is provided"))
	}
	return errs
}
