package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// labels is a flag with labels of the form KEY:VALUE, with commas.
type labels map[string]string

// String returns the labels as one value of the flag.
func (l *labels) String() string {
	var items []string
	for _, key := range slices.Sorted(maps.Keys(*l)) {
		items = append(items, key+":"+(*l)[key])
	}
	return strings.Join(items, ",")
}

// Set adds labels.
func (l *labels) Set(list string) error {
	if *l == nil {
		*l = labels{}
	}
	for item := range strings.SplitSeq(list, ",") {
		key, value, ok := strings.Cut(item, ":")
		if !ok {
			return fmt.Errorf("%q must be KEY:VALUE", item)
		}
		if wrong := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)); len(wrong) > 0 {
			return errors.New(wrong[0])
		}
		(*l)[key] = value
	}
	return nil
}

// labelledLeases writes Leases with labels.
type labelledLeases struct {
	coordinationv1.LeasesGetter
	labels labels
}

// Leases returns the client of a namespace.
func (l labelledLeases) Leases(namespace string) coordinationv1.LeaseInterface {
	return labelledLease{l.LeasesGetter.Leases(namespace), l.labels}
}

type labelledLease struct {
	coordinationv1.LeaseInterface
	labels labels
}

// Create creates a Lease with the labels.
func (l labelledLease) Create(ctx context.Context, lease *v1.Lease, options metav1.CreateOptions) (*v1.Lease, error) {
	return l.LeaseInterface.Create(ctx, l.label(lease), options)
}

// Update updates a Lease, and adds the labels.
func (l labelledLease) Update(ctx context.Context, lease *v1.Lease, options metav1.UpdateOptions) (*v1.Lease, error) {
	return l.LeaseInterface.Update(ctx, l.label(lease), options)
}

func (l labelledLease) label(lease *v1.Lease) *v1.Lease {
	lease = lease.DeepCopy()
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	maps.Copy(lease.Labels, l.labels)
	return lease
}
