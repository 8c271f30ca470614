{{/* One name for all objects, so that both modes stand side by side. */}}
{{- define "picket.name" -}}
{{ eq .Values.mode "pods" | ternary "picket-pods" "picket-agent" }}
{{- end }}

{{- define "picket.labels" -}}
{app.kubernetes.io/name: {{ include "picket.name" . }}, app.kubernetes.io/part-of: picket}
{{- end }}

{{- define "picket.listen" -}}
{{ .Values.listen | default (eq .Values.mode "pods" | ternary "127.0.0.1:9481" "127.0.0.1:9480") }}
{{- end }}

{{/* Where probes ask: IPv6 addresses stand in brackets. */}}
{{- define "picket.probe" -}}
{{- $listen := include "picket.listen" . -}}
{{- $port := splitList ":" $listen | last -}}
host: {{ trimSuffix (printf ":%s" $port) $listen | trimPrefix "[" | trimSuffix "]" | quote }}, port: {{ $port }}
{{- end }}
