{{/* One name for all objects, so that all modes stand side by side. */}}
{{- define "picket.name" -}}
{{ get (dict "host" "picket-agent" "vpp" "picket-agent-vpp" "pods" "picket-pods" "reflector" "picket-reflector" "controller" "picket-controller") .Values.mode }}
{{- end }}

{{- define "picket.labels" -}}
{app.kubernetes.io/name: {{ include "picket.name" . }}, app.kubernetes.io/part-of: picket}
{{- end }}

{{- define "picket.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
{{- end }}

{{- define "picket.listen" -}}
{{- $usual := dict "host" "127.0.0.1:9480" "vpp" "127.0.0.1:9482" "pods" "127.0.0.1:9481" "reflector" "0.0.0.0:9481" "controller" "0.0.0.0:9483" -}}
{{ .Values.listen | default (get $usual .Values.mode) }}
{{- end }}

{{- define "picket.port" -}}
{{ include "picket.listen" . | splitList ":" | last }}
{{- end }}

{{/* Where probes of an agent, which is in the network of its node, ask: IPv6 addresses stand in brackets. Of an agent that listens
     at every address they ask at that of the node. */}}
{{- define "picket.probe" -}}
{{- $port := include "picket.port" . -}}
{{- $host := trimSuffix (printf ":%s" $port) (include "picket.listen" .) -}}
{{- if has $host (list "0.0.0.0" "[::]") -}}
port: {{ $port }}
{{- else -}}
host: {{ $host | trimPrefix "[" | trimSuffix "]" | quote }}, port: {{ $port }}
{{- end }}
{{- end }}
